"""The errors of Tilewise. Each has `kind`: the name of C++'s tilewise::ErrorKind."""


class Error(RuntimeError):
    """A failure. Its text has the attempt, the wrong value and the allowed range."""

    kind = "unexpected"


class InvalidArgument(Error, ValueError):
    """A bad size, type, stride, option or pointer; or `out` overlaps an operand."""


class NotFound(Error, LookupError):
    """Nothing is stored for the problem, and on_miss is "error"."""


class Unsupported(Error):
    """A correct request that this device or build cannot serve."""


class DeviceError(Error):
    """No driver, no such GPU, or the driver failed."""


class OutOfMemory(Error, MemoryError):
    """Too little memory; the text has the bytes needed and free."""


_KINDS = {
    "invalid_argument": InvalidArgument,
    "not_found": NotFound,
    "unsupported": Unsupported,
    "no_device": DeviceError,
    "device": DeviceError,
    "out_of_memory": OutOfMemory,
}


def of_kind(kind: str, text: str) -> Error:
    """The error for a kind of C++."""
    made = _KINDS.get(kind, Error)(text)
    made.kind = kind
    return made
