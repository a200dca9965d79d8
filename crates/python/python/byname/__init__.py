"""Tables for huge numbers of names, ids and sets of tags, and a client for named data."""

import atexit

from ._byname import Data, FlatReader, FlatTable, Interest, Message, PrefixTable, TagTable, Update, shut_down
from .client import Client, Group, Messages, Parts, Producer, Publication, connect
from .errors import (
    ClientError,
    CommandRefused,
    ConnectionLost,
    Error,
    FetchFailed,
    InvalidFile,
    InvalidKey,
    InvalidValue,
    Nack,
    NoAnswer,
    NoSuchData,
    NotConnected,
    SearchTooLong,
    TableError,
    TableFull,
    TooLarge,
    Untrusted,
)

__all__ = [
    "Client",
    "ClientError",
    "CommandRefused",
    "ConnectionLost",
    "Data",
    "Error",
    "FetchFailed",
    "FlatReader",
    "FlatTable",
    "Group",
    "Interest",
    "InvalidFile",
    "InvalidKey",
    "InvalidValue",
    "Message",
    "Messages",
    "Nack",
    "NoAnswer",
    "NoSuchData",
    "NotConnected",
    "Parts",
    "PrefixTable",
    "Producer",
    "Publication",
    "SearchTooLong",
    "TableError",
    "TableFull",
    "TagTable",
    "TooLarge",
    "Untrusted",
    "Update",
    "connect",
]

# The thread of clients must not touch an interpreter that has ended.
atexit.register(shut_down)
del atexit, shut_down
