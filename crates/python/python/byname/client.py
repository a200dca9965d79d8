"""The client for asyncio.

    async with await byname.connect() as client:
        data = await client.express("/example/hello")
        print(data.content)

Names are URIs (`/example/a%2Fb/v=3`). Times are seconds. Each method raises `NoAnswer`, `Nack` or another exception of
`byname.errors`. If the router goes away, the client connects again by itself, registers its prefixes again, and sends
again what was not answered, for at most `outage` seconds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from os import PathLike
from types import TracebackType
from typing import Literal, Self

from . import _byname
from ._byname import Data, Interest, Message, Update
from .errors import FetchFailed

Discovery = Literal["auto", "rdr", "prefix", "none"]


async def connect(
    *routers: str,
    reconnect: bool = True,
    key: tuple[str, bytes | PathLike[str]] | None = None,
    anchors: Sequence[str | PathLike[str]] = (),
    schema: str | PathLike[str] | None = None,
    outage: float = 60.0,
    refresh: float = 25.0,
) -> Client:
    """Connects to the first of these routers that answers.

    A router is a URI such as `unix:///run/nfd/nfd.sock`, `tcp://host`, `udp://host`, `ws://host` or `wss://host`, the
    last with the fingerprint of a certificate if it is one that no authority vouches for: `wss://host/#sha256=...`.
    Without one, the environment names it, as for all NDN applications: `NDN_CLIENT_TRANSPORT`, `client.conf`, or the usual sockets.

    `key` signs Data and commands: its name, and the private key as PKCS#8, in bytes (DER) or in a file (DER or PEM), as
    `byname key make` writes it. Without one, Data has a digest, which tells changed content and nothing else.

    `anchors` are files of certificates, as `byname key` and `ndnsec cert-dump` write them. With them, Data is trusted
    only if it is signed by a key that one of them vouches for, directly or by other certificates, which the client
    fetches. Each may sign what is below its identity, or what `schema` says, a file in LightVerSec.

    While the connection is gone, Interests and transfers wait for another one for at most `outage` seconds
    (`math.inf`: for ever) without any progress, and then raise `ConnectionLost`. Over UDP, nothing tells that a router
    has restarted; there, prefixes are registered again every `refresh` seconds.
    """
    key_name, private_key, key_file = None, None, None
    if key is not None:
        key_name, secret = key
        if isinstance(secret, bytes):
            private_key = secret
        else:
            key_file = secret
    opening = _byname.Connection.open(routers, reconnect, key_name, private_key, key_file, anchors, schema, outage, refresh)
    return Client(await opening)


class Client:
    """A connected application. `connect` makes it."""

    def __init__(self, connection: _byname.Connection) -> None:
        self._connection = connection
        self._peers = connection.peers()

    async def express(
        self,
        name: str,
        *,
        can_be_prefix: bool = False,
        must_be_fresh: bool = False,
        lifetime: float = 4.0,
        hop_limit: int | None = None,
        parameters: bytes | None = None,
        forwarding_hint: Sequence[str] = (),
        tries: int = 3,
    ) -> Data:
        """Sends an Interest and returns its Data. Each try waits for the lifetime."""
        return await self._connection.express(
            name, can_be_prefix, must_be_fresh, lifetime, hop_limit, parameters, forwarding_hint, tries
        )

    async def produce(self, prefix: str, *, announce: bool = False) -> Producer:
        """Registers a prefix at the router, and returns the Interests below it.

        `announce` lets the router announce the prefix to its network.
        """
        return Producer(prefix, await self._connection.produce(prefix, announce))

    async def serve(
        self, prefix: str, answer: Callable[[Interest], Awaitable[bytes | None]], *, freshness: float = 1.0
    ) -> None:
        """Answers all Interests below a prefix, one after the other, with what `answer` returns, until cancelled.

        An Interest for which it returns None gets no answer.
        """
        async with await self.produce(prefix) as producer:
            async for interest in producer:
                content = await answer(interest)
                if content is not None:
                    await interest.reply(content, freshness=freshness)

    async def fetch(
        self,
        name: str,
        *,
        bytes_max: int = 1 << 30,
        discovery: Discovery = "auto",
        lifetime: float = 4.0,
        tries: int = 15,
    ) -> bytes:
        """Returns the newest version of an object, from all its segments.

        An object of more than `bytes_max` bytes raises `TooLarge`. `discovery` finds the version: by RDR metadata
        (`rdr`), by an Interest with CanBePrefix (`prefix`), by one or the other (`auto`), or not at all (`none`).
        """
        return await self._connection.fetch(name, bytes_max, discovery, lifetime, tries)

    async def fetch_parts(
        self,
        name: str,
        *,
        bytes_max: int = (1 << 64) - 2,
        discovery: Discovery = "auto",
        lifetime: float = 4.0,
        tries: int = 15,
    ) -> Parts:
        """As `fetch`, for objects that are larger than memory: returns their segments, in order, as they arrive."""
        return Parts(await self._connection.parts(name, bytes_max, discovery, lifetime, tries))

    async def fetch_file(
        self,
        name: str,
        path: str | PathLike[str],
        *,
        bytes_max: int = (1 << 64) - 2,
        lifetime: float = 4.0,
        tries: int = 15,
    ) -> str:
        """Fetches the newest version of an object into a file, and returns its SHA-256 in hexadecimal.

        Until it is complete, it is in `PATH.part`. The next call goes on from there, also in another process.
        """
        return await self._connection.fetch_file(name, path, bytes_max, lifetime, tries)

    async def publish(
        self,
        name: str,
        content: bytes | bytearray | memoryview | PathLike[str],
        *,
        segment_bytes: int = 8000,
        freshness: float = 10.0,
        version: int | None = None,
        announce: bool = False,
    ) -> Publication:
        """Publishes bytes or a file in segments, until the result is closed.

        The version is that of the name, or `version`, or the time of the last change in ms since 1970. A file stays
        where it is, and must not change.
        """
        held: bytes | None = None
        file: PathLike[str] | None = None
        if isinstance(content, bytes | bytearray | memoryview):
            held = bytes(content)
        else:
            file = content
        return Publication(
            await self._connection.publish(name, held, file, segment_bytes, freshness, version, announce)
        )

    async def join(
        self, group: str, node: str, *, period: float = 30.0, suppression: float = 0.2, boot: int = 0
    ) -> Group:
        """Becomes the member `node` of a group that synchronizes its publications (State Vector Sync).

        Routers must send the group's Interests to all members, by the strategy multicast. A member without news tells
        its state every `period` seconds. `boot` is that of an earlier run whose publications are still there; 0: now.
        """
        return Group(group, node, await self._peers.join(group, node, period, suppression, boot))

    async def advertise(self, *sets_of: Iterable[str]) -> None:
        """Wants the messages whose tags include all of one of these sets. `messages` brings them."""
        await self._peers.advertise([_tags(tags) for tags in sets_of])

    async def withdraw(self, *sets_of: Iterable[str]) -> None:
        """Wants these no more."""
        await self._peers.withdraw([_tags(tags) for tags in sets_of])

    async def addresses(self) -> list[str]:
        """Returns this program's addresses, one on each of the router's trees. They end with the connection."""
        return await self._peers.addresses()

    async def send_to_tags(
        self, tags: Iterable[str], payload: bytes, *, limit: int | None = None, source: str | None = None
    ) -> None:
        """Sends to those that advertised a subset of these tags: at most `limit` programs, or all.

        `source` is one of this program's addresses, to which answers go. The network may lose messages.
        """
        await self._peers.send_to_tags(_tags(tags), payload, limit, source)

    async def send_to(self, destination: str, payload: bytes, *, source: str | None = None) -> None:
        """Sends to an address. `source` is one of this program's addresses, on the same tree."""
        await self._peers.send_to(destination, payload, source)

    async def messages(self) -> Messages:
        """Returns the messages that arrive from now on. An earlier result gets no more."""
        return Messages(await self._peers.messages())

    async def close(self) -> None:
        """Closes the connection. What waits for something raises `ConnectionLost`."""
        await self._connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _tags(tags: Iterable[str]) -> list[str]:
    if isinstance(tags, str):
        raise TypeError(f"tags are several strings, such as [{tags!r}], and not one")
    return list(tags)


class _Closing:
    """What `async with` closes."""

    def close(self) -> None:
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Producer(_Closing):
    """The Interests below a registered prefix: `async for interest in producer`.

    Interests that nobody takes are dropped once 256 wait.
    """

    def __init__(self, prefix: str, producer: _byname.Producer) -> None:
        self.prefix = prefix
        """The prefix."""
        self._producer = producer

    def __aiter__(self) -> AsyncIterator[Interest]:
        return self

    async def __anext__(self) -> Interest:
        interest = await self._producer.next()
        if interest is None:
            raise StopAsyncIteration
        return interest

    def close(self) -> None:
        """Withdraws the prefix, and ends the iteration."""
        self._producer.close()


class Parts(_Closing):
    """The segments of an object: `async for part in parts`."""

    def __init__(self, parts: _byname.Parts) -> None:
        self._parts = parts
        self._next = 0

    @property
    def name(self) -> str:
        """The name of the object, with its version."""
        return self._parts.name

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        part = await self._parts.next()
        if part is None:
            raise StopAsyncIteration
        number, content = part
        if number != self._next:
            # Waiting was cancelled just as the part arrived.
            self.close()
            raise FetchFailed(f"part {self._next} of {self.name} was lost when the wait for it was cancelled")
        self._next += 1
        return content

    def close(self) -> None:
        """Ends the transfer."""
        self._parts.close()


class Publication(_Closing):
    """A published object."""

    def __init__(self, publication: _byname.Publication) -> None:
        self._publication = publication

    @property
    def name(self) -> str:
        """Its name, with the version."""
        return self._publication.name

    @property
    def size(self) -> int:
        """Its bytes."""
        return self._publication.size

    @property
    def sha256(self) -> str:
        """SHA-256 of its content, in hexadecimal."""
        return self._publication.sha256

    def close(self) -> None:
        """Withdraws it."""
        self._publication.close()


class Group(_Closing):
    """A group that synchronizes: `async for update in group` tells what other members have published."""

    def __init__(self, name: str, node: str, group: _byname.Group) -> None:
        self.group = name
        """The group's name."""
        self.node = node
        """The name of this member."""
        self._group = group
        self._arrived: deque[Update] = deque()

    @property
    def boot(self) -> int:
        """Boot time of this member in seconds since 1970, which is in the names of its publications."""
        return self._group.boot

    def name(self, number: int) -> str:
        """The name `/<node>/<group>/t=<boot>/seq=<number>` of a publication of this member."""
        return self._group.name(number)

    async def publish(self) -> int:
        """Tells the group of a new publication, and returns its number. Serve its name before."""
        return await self._group.publish()

    def __aiter__(self) -> AsyncIterator[Update]:
        return self

    async def __anext__(self) -> Update:
        while not self._arrived:
            updates = await self._group.next()
            if updates is None:
                raise StopAsyncIteration
            self._arrived.extend(updates)
        return self._arrived.popleft()

    def close(self) -> None:
        """Leaves the group, and ends the iteration."""
        self._group.close()


class Messages(_Closing):
    """The messages that arrive: `async for message in messages`. Those that nobody takes are dropped once 256 wait."""

    def __init__(self, messages: _byname.Messages) -> None:
        self._messages = messages

    def __aiter__(self) -> AsyncIterator[Message]:
        return self

    async def __anext__(self) -> Message:
        message = await self._messages.next()
        if message is None:
            raise StopAsyncIteration
        return message

    def close(self) -> None:
        """Ends the iteration."""
        self._messages.close()
