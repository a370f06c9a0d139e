"""The exceptions of Penstock. Each has a message of one line: where it went wrong, the value, and what was expected."""


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
