"""The exceptions of Penstock. Each has a message of one line: where it went wrong, the value, and what was expected."""
import re

_FLAG = re.compile(r"(?<![^\s(])(shardprep pack )?--"
                   r"(batch-size|encode|force|jobs|max-pixels|on-corrupt|pixels|prefetch|resize|shards|sixteen-bit)\b"
                   r"(?: (coef|drop|f32|jpeg|keep|mask|raw|skip|substitute|u16)\b)?")


class ConfigError(ValueError):
    """An option, key, name or combination that is not allowed. The tools end with exit code 2 for it."""


class IoError(OSError):
    """A file that is missing, unreadable, unwritable or cut short, or a full disk. Exit code 3 of the tools."""


class CorruptError(ValueError):
    """Bytes that violate their format: a damaged sample, or a picture that cannot be decoded. Exit code 4 of the tools."""


class DeviceError(RuntimeError):
    """The system gives no more threads or memory, or a device failed. Exit code 5 of the tools."""


class BugError(RuntimeError):
    """A mistake inside of Penstock itself. Please report it."""


def as_arguments(text: str) -> str:
    """Text of the library, with the arguments of Python in place of the flags of the tools."""
    def argument(found: "re.Match[str]") -> str:
        tool, flag, word = found.groups()
        name = flag.replace("-", "_")
        value = f'{name}="{word}"' if word else "force=True" if flag == "force" else name
        return f"penstock.pack({value if '=' in value else f'{value}=...'})" if tool else value

    return _FLAG.sub(argument, text)


def in_python(line: str) -> str:
    """An error's line. What stands before its hint stays: it may quote names of files."""
    fact, expected, hint = line.rpartition("; expected ")
    return f"{fact}{expected}{as_arguments(hint)}"
