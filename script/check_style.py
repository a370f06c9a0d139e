"""Style that a formatter does not see: opening comments, sizes, unfinished work, sleeping and skipped tests."""
import collections
import pathlib
import re
import sys

# More than the first number is a warning, more than the second one an error: a limit is no target.
LINES, FUNCTION_LINES, UNITS = (400, 600), (80, 120), (16, 24)
NO_CODE = re.compile(
    r'R"(\w*)\([\s\S]*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])+\'|//.*|/\*[\s\S]*?\*/|^[ ]*#(?:.*\\\n)*.*',
    re.M,
)
NO_FUNCTION = re.compile(r"(?:template\s*<[\s\S]*>\s*)?(?:class|struct|union|enum|namespace|extern)\b")
FORBIDDEN = [
    (re.compile(r"\b(TODO|FIXME|XXX)\b"), "unfinished work; finish it or open an issue"),
    # The tests of photographs are the one exception: the data are too large for the repository.
    (re.compile(r"GTEST_SKIP(?!\(\) << testing_data::no_photographs\(\);)|DISABLED_|pytest\.mark\.skip"), "skipped test"),
    (re.compile(r'throw \w*[Ee]rror\("[^";]*"\);'), "message without what was expected"),
    (re.compile(r"^using namespace (?!std::|at::|torch::indexing)"), "using namespace"),
]
FORBIDDEN_OUTSIDE_OF_TESTS = [
    (re.compile(r'[ "(]\\"", [\w*(]|"\\"" \+'), "a value in quotes made by hand; in_quotes() shortens it")]
FORBIDDEN_IN_LIBRARIES = [
    (re.compile(r"std::(mutex|condition_variable)\b"), "not checked by clang; core/mutex.h has some that are"),
]
FORBIDDEN_IN_TESTS = [(re.compile(r"\b(sleep_for|sleep_until|usleep|nanosleep)\("), "sleep in a test")]


def size_problem(count, limits, what):
    """None, or what to say of a size: a warning does not fail."""
    warn, fail = limits
    if count > warn:
        return f"{'' if count > fail else 'warning: '}{count} {what}; expected about {warn}, and {fail} at most"
    return None


def functions(text):
    """(first line, number of lines) of every function that lies in no other one, and of every test."""
    text = NO_CODE.sub(lambda match: "\n" * match[0].count("\n"), text)
    begin, opened = 0, []  # one entry per brace: the first line of a function, or None
    for brace in re.finditer("[{};]", text):
        if brace[0] == "{":
            head = text[begin : brace.start()].strip()
            is_function = "(" in head and head[-1] not in "=,(" and not NO_FUNCTION.match(head)
            start = brace.start() - len(text[begin : brace.start()].lstrip())
            opened.append(text.count("\n", 0, start) + 1 if is_function and not any(opened) else None)
        elif brace[0] == "}" and opened:
            if first := opened.pop():
                yield first, text.count("\n", 0, brace.start()) + 2 - first
        begin = brace.end()


def folder_problems(paths):
    """Folders of the product with many units, x.h with x.cpp. Plug-ins do not count: nothing includes them."""
    units = collections.defaultdict(set)
    for path in map(pathlib.Path, paths):
        if path.parts[0] not in ("tests", "bench") and "const Registered" not in path.read_text(encoding="utf-8"):
            units[path.parent].add(path.stem)
    for folder, inside in sorted(units.items()):
        if problem := size_problem(len(inside), UNITS, "units, each a .h with its .cpp"):
            yield folder, problem


def problems(path):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    lines = text.splitlines()
    if not lines or not lines[0].startswith("// "):
        yield 1, "no opening comment; the first line says what the file is"
    yield len(lines), size_problem(len(lines), LINES, "lines")
    for first, count in functions(text):
        yield first, size_problem(count, FUNCTION_LINES, "lines of a function")
    # *-inl.h files of Highway code are included once for each instruction set.
    if path.endswith(".h") and not path.endswith("-inl.h") and "#pragma once" not in lines:
        yield 1, "no #pragma once"
    rules = FORBIDDEN + (FORBIDDEN_IN_TESTS if path.startswith("tests/") else FORBIDDEN_OUTSIDE_OF_TESTS)
    if path.startswith(("core/", "augment/", "loader/", "train/")) and path != "core/mutex.h":
        rules = rules + FORBIDDEN_IN_LIBRARIES
    for number, line in enumerate(lines, 1):
        for pattern, name in rules:
            if pattern.search(line):
                yield number, name


def main():
    found = [(f"{path}:{number}", problem) for path in sys.argv[1:] for number, problem in problems(path)]
    found += folder_problems(sys.argv[1:])
    for place, problem in found:
        if problem:
            print(f"{place}: {problem}")
    return 1 if any(problem and not problem.startswith("warning: ") for _, problem in found) else 0


if __name__ == "__main__":
    sys.exit(main())
