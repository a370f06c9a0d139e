"""One line per check, with counts, and below it what fails."""
import dataclasses
import pathlib

LISTED = 10  # problems of one check on the terminal; all are in the file


@dataclasses.dataclass
class Report:
    """Prints each check as it comes, and writes all that fails into the file `out`, a line each."""
    out: pathlib.Path
    check_count: int = 0
    problem_count: int = 0

    def __post_init__(self):
        self.out.parent.mkdir(parents=True, exist_ok=True)
        self.out.write_text("")

    def check(self, name, fact, problems=()):
        """`fact` has the counts of what was compared. The check holds if `problems`, texts of one line, is empty."""
        problems = list(problems)
        self.check_count += 1
        self.problem_count += len(problems)
        print(f"{'FAIL' if problems else 'ok':4}  {name}: {fact}{f'; {len(problems)} fail' if problems else ''}", flush=True)
        for problem in problems[:LISTED]:
            print(f"        {problem}", flush=True)
        if len(problems) > LISTED:
            print(f"        ... and {len(problems) - LISTED} more in {self.out}", flush=True)
        with self.out.open("a") as file:
            file.writelines(f"{name}: {problem}\n" for problem in problems)

    def note(self, line):
        print(f"      {line}", flush=True)

    def finish(self):
        """Prints the last line; returns the exit code, 1 if a check failed. No check at all is a failure too."""
        holds = self.check_count > 0 and self.problem_count == 0
        print(f"conformance: all {self.check_count} checks hold" if holds else
              f"conformance: {self.problem_count} problems in {self.check_count} checks; all are in {self.out}")
        return 0 if holds else 1
