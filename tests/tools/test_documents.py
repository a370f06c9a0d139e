"""The documents link to files and headings that exist, write rates with "per", define the project's words in one glossary, have
names in one style (guides in capitals, reports in small letters), and say the version that core/version.h says."""
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
# "1.2 ms a step" is read as "one step"; tables that a tool printed are left as they are.
RATE = re.compile(r"\b(?:ns|us|ms|s|images|pictures|bits?|bytes?|once|twice|one) an? (?:step|batch|sample|row|picture|block|epoch|run|rank|chunk)\b")
WORDS = ("batch", "step", "row", "sample", "slot", "chunk", "view", "limit", "schedule", "block", "stage", "model chunk", "part", "share", "micro-batch",
         "shard", "rank", "digest", "plan", "epoch", "position", "worker", "prefetch", "phase")  # fmt: skip


def anchors(document):
    """The anchors that GitHub makes of headings without markup."""
    headings = re.findall(r"^#+ (.+)$", document.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document):
    for name, anchor in re.findall(r"\]\(([^):#]*)(?:#([^)]*))?\)", document.read_text()):
        target = document.parent / name if name else document
        assert target.exists(), name
        assert not anchor or anchor in anchors(target), f"{name}#{anchor}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_rates_are_said_with_per(document):
    prose = [line for line in document.read_text().splitlines() if not line.startswith("|")]
    assert [line for line in prose if RATE.search(line)] == []


def test_the_glossary_has_the_words_of_the_loader_and_the_trainer():
    glossary = (ROOT / "docs/ARCHITECTURE.md").read_text().split("## Glossary")[1].split("\n## ")[0]
    defined = {word.strip() for line in re.findall(r"^\| ([^|]+) \|", glossary, re.MULTILINE) for word in line.split(",")}
    assert set(WORDS) <= defined


def test_guides_are_named_in_capitals_and_reports_in_small_letters():
    for document in (ROOT / "docs").rglob("*.md"):
        folder, name = str(document.relative_to(ROOT / "docs").parent), document.stem
        assert (folder, name) in ((".", name.upper()), ("reports", name.lower())), document


def test_the_newest_release_and_the_consumers_have_the_version_of_the_headers():
    version = re.search(r'PENSTOCK_VERSION "(.+)"', (ROOT / "core/version.h").read_text())[1]
    assert re.search(r"^## (\d\S*) - \d{4}-\d\d-\d\d$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[1] == version
    for consumer in (ROOT / "tests/consumer").rglob("CMakeLists.txt"):
        assert version.startswith(re.search(r"find_package\(penstock (\S+) ", consumer.read_text())[1] + "."), consumer


def test_every_folder_of_the_house_names_the_one_file_that_says_what_lives_there():
    house = (ROOT / "docs/ARCHITECTURE.md").read_text().split("## The house")[1]
    named = {ROOT / folder / file for folder, file in re.findall(r"^\| ((?:augment|loader|train|tools)/\S+) \| (\S+) \|", house, re.MULTILINE)}
    sources = [path for layer in ("augment", "loader", "train", "tools") for path in (ROOT / layer).glob("*/**/*") if path.suffix in (".h", ".cpp")]
    assert {path.parent for path in named} == {path.parent for path in sources}
    assert named == {path for path in sources if re.search(r"^// Lives here: .*(\n// .*)*\n// Not here: ", path.read_text(), re.MULTILINE)}
