"""Style that a formatter does not see: opening comments, file length, unfinished work, sleeping and skipped tests."""
import re
import sys

MAX_LINES = 400
FORBIDDEN = [
    (re.compile(r"\b(TODO|FIXME|XXX)\b"), "unfinished work; finish it or open an issue"),
    # The tests of photographs are the one exception: the data are too large for the repository.
    (re.compile(r"GTEST_SKIP(?!\(\) << testing_data::no_photographs\(\);)|DISABLED_|pytest\.mark\.skip"), "skipped test"),
    (re.compile(r'throw \w*[Ee]rror\("[^";]*"\);'), "message without what was expected"),
    (re.compile(r"^using namespace (?!std::|at::|torch::indexing)"), "using namespace"),
]
FORBIDDEN_OUTSIDE_OF_TESTS = [
    (re.compile(r'[ "(]\\"", [\w*(]|"\\"" \+'), "a value in quotes made by hand; in_quotes() shortens it")]
FORBIDDEN_IN_TESTS = [(re.compile(r"\b(sleep_for|sleep_until|usleep|nanosleep)\("), "sleep in a test")]


def problems(path):
    with open(path, encoding="utf-8") as file:
        lines = file.read().splitlines()
    if not lines or not lines[0].startswith("// "):
        yield 1, "no opening comment; the first line says what the file is"
    if len(lines) > MAX_LINES:
        yield len(lines), f"{len(lines)} lines; expected {MAX_LINES} or fewer"
    # *-inl.h files of Highway code are included once for each instruction set.
    if path.endswith(".h") and not path.endswith("-inl.h") and "#pragma once" not in lines:
        yield 1, "no #pragma once"
    rules = FORBIDDEN + (FORBIDDEN_IN_TESTS if path.startswith("tests/") else FORBIDDEN_OUTSIDE_OF_TESTS)
    for number, line in enumerate(lines, 1):
        for pattern, name in rules:
            if pattern.search(line):
                yield number, name


def main():
    count = 0
    for path in sys.argv[1:]:
        for number, problem in problems(path):
            print(f"{path}:{number}: {problem}")
            count += 1
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
