"""What calls of this package raise. Each exception has the values of its message as attributes."""

from __future__ import annotations


class Error(Exception):
    """All exceptions of this package, besides TypeError and ValueError for arguments that do not fit."""

    def __init__(self, message: str, **values: object) -> None:
        super().__init__(message)
        self.__dict__.update(values)


class TableError(Error):
    """A table refuses. It is as before, unless the method says otherwise."""


class InvalidKey(TableError, ValueError):
    """A key that this table cannot have: too long, too many components or tags, no URL, no name."""

    place: int | None = None
    """Its place among the keys of the call, if there were several and it is known."""


class InvalidValue(TableError, ValueError):
    """A value that has no place in this table."""

    value: int | None = None
    """The value, or the number of its bits."""


class TableFull(TableError):
    """The table has as many keys, or different values, as it may."""

    size: int
    """How many."""


class InvalidFile(TableError, OSError):
    """A file that has no usable table, or that the system does not read or write."""

    path: str | None = None
    """The file, if the system refused it."""
    errno: int | None = None
    """The system's number of the reason."""


class SearchTooLong(TableError):
    """A search among sets of tags was given up."""

    steps: int
    """Steps that it took."""


class ClientError(Error):
    """A client did not get what it asked for."""


class NotConnected(ClientError, ConnectionError):
    """No router answers."""


class ConnectionLost(ClientError, ConnectionError):
    """The client is closed, or its connection is gone and it was told not to connect again."""


class NoAnswer(ClientError, TimeoutError):
    """No answer came."""

    name: str
    """Name of the Interest, or the command."""
    waited: float
    """Seconds waited."""
    tries: int
    """Number of Interests sent."""


class Nack(ClientError):
    """The network refused an Interest."""

    name: str
    """Name of the Interest."""
    reason: str
    """The reason, in words."""


class Untrusted(ClientError):
    """An answer is not what was signed."""

    name: str
    """Name of the Data."""
    reason: str
    """The reason, in words."""


class CommandRefused(ClientError):
    """The router refused a command, such as the registration of a prefix."""

    command: str
    """The command, as `module/verb`."""
    code: int
    """Its status code, like those of HTTP."""
    text: str
    """The router's reason."""


class FetchFailed(ClientError):
    """An object was not fetched."""

    segment: int | None = None
    """The segment that ended the transfer, if it was one."""
    tries: int | None = None
    """Number of Interests for this segment, if no answer came."""
    reason: str | None = None
    """Why it was refused, or what is wrong with it, in words."""
    last: int | None = None
    """The last segment as this one names it, if the end of the object has moved nearer."""
    before: int | None = None
    """The last segment as it was known before."""


class NoSuchData(FetchFailed):
    """The producer says that it does not have the object."""

    name: str
    """Name of the packet that says so."""


class TooLarge(FetchFailed):
    """An object has more bytes than the caller wants."""

    bytes_max: int
    """The most that it may have."""
