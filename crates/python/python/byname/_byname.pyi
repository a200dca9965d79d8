"""The Rust half: tables, and what `byname.client` is made of."""

from asyncio import Future
from collections.abc import Iterable, Sequence
from os import PathLike
from typing import Any, Literal, SupportsIndex, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from typing_extensions import Buffer

__all__ = [
    "Connection",
    "Data",
    "FlatReader",
    "FlatTable",
    "Group",
    "Interest",
    "Message",
    "Messages",
    "Parts",
    "Peers",
    "PrefixTable",
    "Producer",
    "Publication",
    "TagTable",
    "Update",
    "shut_down",
]

_Key = str | bytes
_Path = str | PathLike[str]
_Syntax = Literal["path", "name", "url-tld", "url-site", "url-host"]
_Unknown = Literal["anything", "refused", "exact"]
_Keys = Iterable[_Key] | NDArray[Any] | Buffer
_Ids = Iterable[_Key] | Iterable[SupportsIndex] | NDArray[Any] | Buffer

@final
class PrefixTable:
    """Rules for prefixes of names, each with a value of 0 to 2^32 - 1.

    Keys are text (str, or bytes that are UTF-8 or not). `syntax` says how they are split into components:

    - `path`: at each `/`, so `/a/b`, `a//b` and `/a/b/` are the same key, and `/` is above all others;
    - `name`: the URI of an NDN name;
    - `url-tld`, `url-site`, `url-host`: a URL, by one of three schemes.

    Any number of threads may use a table. Lookups never wait for a writer.
    """

    def __new__(
        cls,
        *,
        syntax: _Syntax = "path",
        matching: Literal["fast", "exact", "many-values"] = "fast",
        rules_max: int = ...,
    ) -> PrefixTable:
        """Makes an empty table.

        `fast` compares hashes of 54 bits or more, and allows 65,535 different values. `exact` compares each match byte
        by byte. `many-values` compares 79 bits, and allows a value of its own for each rule.
        """

    @staticmethod
    def from_rules(
        keys: _Keys,
        values: ArrayLike,
        *,
        offsets: ArrayLike | None = None,
        syntax: _Syntax = "path",
        rules_max: int = ...,
    ) -> PrefixTable:
        """Makes a table of many rules in any order, as small as it can be. Of equal keys, the last one counts."""

    @staticmethod
    def open(
        path: _Path, *, syntax: _Syntax = "path", checked: bool = True, copied: bool = False, rules_max: int = ...
    ) -> PrefixTable:
        """Opens a file that `save` wrote.

        Processes that open the same file share its memory, unless it is `copied`. `checked` compares checksums, which
        reads the whole file. Changes stay in this process.
        """

    def save(self, path: _Path) -> None:
        """Writes the table into a file. Only tables with matching `fast` have files."""

    def get(self, key: _Key) -> tuple[int, int] | None:
        """Returns the value and the depth, in components, of the deepest rule that covers this key."""

    def rule(self, key: _Key) -> int | None:
        """Returns the value of exactly this rule."""

    def insert(self, key: _Key, value: SupportsIndex) -> int | None:
        """Sets the value of a rule. Returns the value that it had. All threads see the change when this returns."""

    def remove(self, key: _Key) -> int | None:
        """Removes a rule. Returns its value."""

    def insert_all(self, keys: _Keys, values: ArrayLike, *, offsets: ArrayLike | None = None) -> None:
        """Sets many rules: all, or none if there is an error. One value may stand for all."""

    def remove_all(self, keys: _Keys, *, offsets: ArrayLike | None = None) -> None:
        """Removes many rules."""

    def find(self, keys: _Keys, *, offsets: ArrayLike | None = None) -> NDArray[np.int64]:
        """Returns the value for each key, and -1 where no rule covers it.

        `keys` is a list, a NumPy array of dtype S, U or StringDType, or a buffer of bytes in which key `i` lies from
        `offsets[i]` to `offsets[i + 1]`.
        """

    def find_with_depths(
        self, keys: _Keys, *, offsets: ArrayLike | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """As `find`, and returns also the depth of each rule, or -1."""

    @property
    def memory_bytes(self) -> int:
        """Memory of the table, in bytes."""

    def __len__(self) -> int: ...
    def __contains__(self, key: _Key, /) -> bool: ...

@final
class FlatTable:
    """Keys, each with a value of 1 to 32 bits.

    Keys are text, bytes, or integers of 0 to 2^64 - 1. `unknown` says what lookups get for keys that are not there:

    - `anything`: some value. The table is then smallest, 1.13 bits for each bit of a value;
    - `refused`: nothing, except with odds of 2^-`check_bits` (16). It takes as many bits more for each key. Values and
      checksums have 32 bits at most, so give `value_bits`;
    - `exact`: nothing. The table keeps all keys.
    """

    def __new__(
        cls,
        *,
        value_bits: int = 32,
        unknown: _Unknown = "anything",
        check_bits: int | None = None,
        keys_max: int = ...,
    ) -> FlatTable:
        """Makes an empty table."""

    @staticmethod
    def load(
        keys: _Ids,
        values: ArrayLike,
        *,
        offsets: ArrayLike | None = None,
        value_bits: int = 32,
        unknown: _Unknown = "anything",
        check_bits: int | None = None,
        keys_max: int = ...,
    ) -> FlatTable:
        """Makes a table of many keys in one step. Of equal keys, the last one counts."""

    def save(self, path: _Path) -> None:
        """Writes what lookups read into a file, for `FlatReader.open`. The keys are not in it."""

    def get(self, key: _Key | SupportsIndex) -> int | None:
        """Returns the value of a key."""

    def insert(self, key: _Key | SupportsIndex, value: SupportsIndex) -> None:
        """Sets the value of a key. All threads see the change when this returns."""

    def remove(self, key: _Key | SupportsIndex) -> None:
        """Removes a key."""

    def insert_all(self, keys: _Ids, values: ArrayLike, *, offsets: ArrayLike | None = None) -> None:
        """Sets many keys: all, or none if there is an error. One value may stand for all."""

    def remove_all(self, keys: _Ids, *, offsets: ArrayLike | None = None) -> None:
        """Removes many keys."""

    def find(self, keys: _Ids, *, offsets: ArrayLike | None = None) -> NDArray[np.int64]:
        """Returns the value of each key, and -1 where there is none.

        `keys` is an array of integers, a list, an array of dtype S, U or StringDType, an array of bytes (uint8) with a
        row for each key, or a buffer of bytes in which key `i` lies from `offsets[i]` to `offsets[i + 1]`.
        """

    @property
    def memory_bytes(self) -> int:
        """Memory of what lookups read, in bytes."""

    def __len__(self) -> int: ...

@final
class FlatReader:
    """A file of a `FlatTable`, for lookups."""

    @staticmethod
    def open(path: _Path, *, checked: bool = True, copied: bool = False) -> FlatReader:
        """Opens a file that `FlatTable.save` wrote. Processes share its memory, unless it is `copied`."""

    def get(self, key: _Key | SupportsIndex) -> int | None:
        """Returns the value of a key."""

    def find(self, keys: _Ids, *, offsets: ArrayLike | None = None) -> NDArray[np.int64]:
        """As `FlatTable.find`."""

@final
class TagTable:
    """Sets of up to 32 tags (str or bytes), each with a value of 0 to 2^32 - 1."""

    def __new__(cls, *, sets_max: int = ..., steps_max: int = ...) -> TagTable:
        """Makes an empty table. A search of more than `steps_max` steps is given up."""

    def insert(self, set: Iterable[_Key], value: SupportsIndex) -> int | None:
        """Sets the value of a set of tags. Returns the value that it had."""

    def remove(self, set: Iterable[_Key]) -> int | None:
        """Removes a set of tags. Returns its value."""

    def insert_all(self, sets_of: Iterable[Iterable[_Key]], values: ArrayLike) -> None:
        """Sets the values of many sets: all, or none if there is an error."""

    def remove_all(self, sets_of: Iterable[Iterable[_Key]]) -> None:
        """Removes many sets."""

    def subsets(self, set: Iterable[_Key]) -> list[int]:
        """Returns the values of all sets whose tags are among these, in no order."""

    def largest(self, set: Iterable[_Key]) -> int | None:
        """Returns the value of the largest of these sets."""

    def find(self, sets_of: Iterable[Iterable[_Key]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """As `subsets` for many: the values of set `i` are `values[offsets[i]:offsets[i + 1]]`."""

    @property
    def memory_bytes(self) -> int:
        """Memory of the table, in bytes."""

    def __len__(self) -> int: ...

@final
class Data:
    """A Data packet, which is trusted."""

    @property
    def name(self) -> str:
        """Its name, as a URI."""

    @property
    def content(self) -> bytes:
        """Its content."""

    @property
    def content_type(self) -> int:
        """Its ContentType: 0 for a blob."""

    @property
    def freshness(self) -> float:
        """Its FreshnessPeriod in seconds."""

    @property
    def final_block(self) -> str | None:
        """The last component that names of this object have, as in a URI (`seg=7`)."""

    @property
    def packet(self) -> bytes:
        """The whole packet."""

@final
class Interest:
    """An Interest that this program may answer."""

    @property
    def name(self) -> str:
        """Its name, as a URI."""

    @property
    def prefix(self) -> str:
        """The registered prefix that it belongs to."""

    @property
    def can_be_prefix(self) -> bool:
        """Whether Data with a longer name may answer."""

    @property
    def must_be_fresh(self) -> bool:
        """Whether only fresh Data may answer."""

    @property
    def lifetime(self) -> float:
        """Its lifetime in seconds."""

    @property
    def parameters(self) -> bytes | None:
        """Its ApplicationParameters."""

    def reply(
        self, content: bytes = ..., *, name: str | None = None, freshness: float = 0.0, content_type: int = 0
    ) -> Future[None]:
        """Answers with Data of this content, signed by the client's key. The name is that of the Interest, or a longer one."""

@final
class Producer:
    def next(self) -> Future[Interest | None]: ...
    def close(self) -> None: ...

@final
class Parts:
    @property
    def name(self) -> str: ...
    def next(self) -> Future[tuple[int, bytes] | None]: ...
    def close(self) -> None: ...

@final
class Publication:
    @property
    def name(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def sha256(self) -> str: ...
    def close(self) -> None: ...

@final
class Update:
    """Publications of another member of a group."""

    @property
    def node(self) -> str:
        """The member."""

    @property
    def boot(self) -> int:
        """Its boot time, in seconds since 1970."""

    @property
    def first(self) -> int:
        """Number of the first publication that is new."""

    @property
    def last(self) -> int:
        """Number of the newest one."""

    def name(self, number: int) -> str:
        """The name `/<node>/<group>/t=<boot>/seq=<number>` of a publication of this member."""

@final
class Group:
    @property
    def boot(self) -> int: ...
    def name(self, number: int) -> str: ...
    def next(self) -> Future[list[Update] | None]: ...
    def publish(self) -> Future[int]: ...
    def close(self) -> None: ...

@final
class Message:
    """A message by tags, or to this program's address."""

    @property
    def payload(self) -> bytes:
        """Its content."""

    @property
    def source(self) -> str | None:
        """The address for an answer."""

    @property
    def by_tags(self) -> bool:
        """Whether it was addressed by tags, and not by address."""

    def reply(self, payload: bytes, *, source: str | None = None) -> Future[None]:
        """Sends to the message's source. `source` is one of this program's addresses, on the same tree."""

@final
class Messages:
    def next(self) -> Future[Message | None]: ...
    def close(self) -> None: ...

@final
class Peers:
    def join(self, group: str, node: str, period: float, suppression: float, boot: int) -> Future[Group]: ...
    def advertise(self, sets_of: Sequence[Sequence[str]]) -> Future[None]: ...
    def withdraw(self, sets_of: Sequence[Sequence[str]]) -> Future[None]: ...
    def addresses(self) -> Future[list[str]]: ...
    def send_to_tags(
        self, tags: Sequence[str], payload: bytes, limit: int | None, source: str | None
    ) -> Future[None]: ...
    def send_to(self, destination: str, payload: bytes, source: str | None) -> Future[None]: ...
    def messages(self) -> Future[Messages]: ...

@final
class Connection:
    @staticmethod
    def open(
        routers: Sequence[str],
        reconnect: bool,
        key_name: str | None,
        private_key: bytes | None,
        key_file: _Path | None,
        anchors: Sequence[_Path],
        schema: _Path | None,
        outage: float,
        refresh: float,
    ) -> Future[Connection]: ...
    def express(
        self,
        name: str,
        can_be_prefix: bool,
        must_be_fresh: bool,
        lifetime: float,
        hop_limit: int | None,
        parameters: bytes | None,
        forwarding_hint: Sequence[str],
        tries: int,
    ) -> Future[Data]: ...
    def produce(self, prefix: str, announce: bool) -> Future[Producer]: ...
    def publish(
        self,
        name: str,
        content: bytes | None,
        file: _Path | None,
        segment_bytes: int,
        freshness: float,
        version: int | None,
        announce: bool,
    ) -> Future[Publication]: ...
    def fetch(self, name: str, bytes_max: int, discovery: str, lifetime: float, tries: int) -> Future[bytes]: ...
    def fetch_file(
        self, name: str, path: _Path, bytes_max: int, lifetime: float, tries: int
    ) -> Future[str]: ...
    def parts(self, name: str, bytes_max: int, discovery: str, lifetime: float, tries: int) -> Future[Parts]: ...
    def peers(self) -> Peers: ...
    def close(self) -> Future[None]: ...

def shut_down() -> None: ...
