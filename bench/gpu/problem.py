"""Problem: an error that is told in one line, with the exit code of the tools: 2 options, 3 files, 5 devices."""


class Problem(Exception):
    def __init__(self, text, code=2):
        super().__init__(text)
        self.code = code
