"""A client of ``byname gribi serve``: a controller that programs one router, over gRPC.

It needs ``grpcio`` and ``protobuf``: ``pip install 'byname[gribi]'``. The messages are made from ``gribi.binpb``, the compiled
form of ``crates/gribi/proto/gribi.proto``, so there is no generated code. ``docs/gribi.md`` describes the protocol.
"""

from __future__ import annotations

import queue
from collections.abc import Iterable, Iterator, Mapping
from importlib import resources
from types import TracebackType
from typing import Any, Self

import grpc  # type: ignore[import-untyped, unused-ignore]
from google.protobuf import (  # type: ignore[import-untyped, unused-ignore]
    descriptor_pb2,
    descriptor_pool,
    message_factory,
)

__all__ = [
    "Client",
    "OperationFailed",
    "Session",
    "connect",
    "flat",
    "group",
    "next_hop",
    "prefix",
    "tags",
]

_PACKAGE = "byname.gribi.v1"


def _messages() -> dict[str, Any]:
    files = descriptor_pb2.FileDescriptorSet.FromString(resources.files(__package__).joinpath("gribi.binpb").read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    names = [message.name for file in files.file for message in file.message_type]
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in names}


#: The classes of all messages, by their names in the proto file.
MESSAGES: dict[str, Any] = _messages()

_ADD, _REPLACE, _DELETE = 1, 2, 3
_FAILED, _FIB_PROGRAMMED, _FIB_FAILED = 1, 3, 4
_KINDS = {"all": 0, "next_hop": 1, "next_hop_group": 2, "prefix": 3, "flat": 4, "tags": 5}
#: Operations in one request.
_REQUEST = 512


class OperationFailed(Exception):
    """An operation has failed. ``failures`` has the reasons, by the ids of the operations."""

    def __init__(self, failures: Mapping[int, str]) -> None:
        self.failures = dict(failures)
        number, why = next(iter(self.failures.items()))
        more = f", and {len(self.failures) - 1} more" if len(self.failures) > 1 else ""
        super().__init__(f"operation {number}: {why}{more}")


def next_hop(index: int, uri: str = "") -> Any:
    """A face of the router, by the address of its peer, for example ``udp4://192.0.2.1:6363``."""
    return MESSAGES["NextHop"](index=index, uri=uri)


def group(id: int, members: Mapping[int, int] | Iterable[int] = ()) -> Any:
    """Next-hops that entries use together: a mapping of indices to costs, or indices alone."""
    costs = members if isinstance(members, Mapping) else dict.fromkeys(members, 0)
    return MESSAGES["NextHopGroup"](id=id, next_hop=[{"index": index, "cost": cost} for index, cost in costs.items()])


def prefix(name: str, group: int = 0, *, no_inherit: bool = False, capture: bool = False) -> Any:
    """Interests whose names begin with a prefix."""
    return MESSAGES["PrefixEntry"](name=name, next_hop_group=group, no_inherit=no_inherit, capture=capture)


def flat(name: str, group: int = 0) -> Any:
    """A name in one of the router's flat namespaces."""
    return MESSAGES["FlatEntry"](name=name, next_hop_group=group)


def tags(tags: Iterable[str], group: int = 0) -> Any:
    """Packets whose tags include all of these."""
    return MESSAGES["TagsEntry"](tag=list(tags), next_hop_group=group)


_FIELDS = {
    "NextHop": "next_hop",
    "NextHopGroup": "next_hop_group",
    "PrefixEntry": "prefix",
    "FlatEntry": "flat",
    "TagsEntry": "tags",
}


def _halves(number: int) -> Any:
    return MESSAGES["Uint128"](high=number >> 64, low=number & (1 << 64) - 1)


def connect(address: str = "127.0.0.1:9340", credentials: grpc.ChannelCredentials | None = None) -> Client:
    """Connects to a server. With credentials (``grpc.ssl_channel_credentials``), over TLS."""
    if credentials is None:
        return Client(grpc.insecure_channel(address))
    return Client(grpc.secure_channel(address, credentials))


class Client:
    """A connection to a server. Closed at the end of a ``with`` statement."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._channel = channel

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection, and ends its sessions."""
        self._channel.close()

    def _method(self, make: Any, name: str) -> Any:
        request, response = MESSAGES[f"{name}Request"], MESSAGES[f"{name}Response"]
        return make(
            f"/{_PACKAGE}.Gribi/{name}",
            request_serializer=request.SerializeToString,
            response_deserializer=response.FromString,
        )

    def modify(self, election: int = 1, *, preserve: bool = True, fib: bool = True) -> Session:
        """Begins a session.

        ``election``: the client with the highest one is primary, and alone may change anything. ``preserve``: entries stay when
        the session ends. ``fib``: operations are done when packets are forwarded by them, and not when the server has them.
        """
        return Session(self._method(self._channel.stream_stream, "Modify"), election, preserve, fib)

    def get(self, kind: str = "all") -> Iterator[Any]:
        """Entries of a kind: all, next_hop, next_hop_group, prefix, flat or tags. Each has one of these fields, and ``fib_status``."""
        request = MESSAGES["GetRequest"](kind=_KINDS[kind])
        for page in self._method(self._channel.unary_stream, "Get")(request):
            yield from page.entry

    def flush(self, election: int | None = None) -> None:
        """Removes everything, and returns when the router has none of it. Without an election id: whoever is primary."""
        request = MESSAGES["FlushRequest"]()
        if election is None:
            request.override.SetInParent()
        else:
            request.id.CopyFrom(_halves(election))
        self._method(self._channel.unary_unary, "Flush")(request)


class Session:
    """A session: operations, and their results. Ends at the end of a ``with`` statement."""

    def __init__(self, method: Any, election: int, preserve: bool, fib: bool) -> None:
        request = MESSAGES["ModifyRequest"]
        self._election = _halves(election)
        self._fib = fib
        self._requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._requests.put(request(params={"persistence": int(preserve), "ack": int(fib)}))
        self._requests.put(request(election_id=self._election))
        self._next_id = 1
        self._batch: list[Any] = []
        self._open: set[int] = set()
        self._failures: dict[int, str] = {}
        self._responses = method(iter(self._requests.get, None))
        highest = 0
        while not highest:
            response = next(self._responses)
            highest = response.election_id.high << 64 | response.election_id.low
        #: The highest election id that the server knows.
        self.highest = highest
        #: Whether this client may change anything.
        self.is_primary = election >= highest

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Ends the session."""
        self._requests.put(None)
        self._responses.cancel()

    def add(self, entry: Any) -> int:
        """Makes an entry, or replaces it. Returns the operation's id."""
        return self._ask(_ADD, entry)

    def replace(self, entry: Any) -> int:
        """Replaces an entry that exists. Returns the operation's id."""
        return self._ask(_REPLACE, entry)

    def delete(self, entry: Any) -> int:
        """Deletes an entry; its key is enough. Returns the operation's id."""
        return self._ask(_DELETE, entry)

    def _ask(self, kind: int, entry: Any) -> int:
        number = self._next_id
        self._next_id += 1
        operation = MESSAGES["Operation"](id=number, kind=kind, election_id=self._election)
        getattr(operation, _FIELDS[type(entry).DESCRIPTOR.name]).CopyFrom(entry)
        self._open.add(number)
        self._batch.append(operation)
        if len(self._batch) >= _REQUEST:
            self._send()
        return number

    def _send(self) -> None:
        if self._batch:
            self._requests.put(MESSAGES["ModifyRequest"](operation=self._batch))
            self._batch = []

    def wait(self) -> None:
        """Waits until all operations so far are done. Raises :class:`OperationFailed` if some have failed."""
        self._send()
        while self._open:
            response = next(self._responses, None)
            if response is None:
                raise ConnectionError("the server has ended the session")
            for result in response.result:
                if result.status in (_FAILED, _FIB_FAILED):
                    self._failures[result.id] = result.error
                elif self._fib and result.status != _FIB_PROGRAMMED:
                    continue
                self._open.discard(result.id)
        if self._failures:
            failures, self._failures = self._failures, {}
            raise OperationFailed(failures)
