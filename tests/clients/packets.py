"""Packets built byte by byte, for tests that send what no correct client would."""

from __future__ import annotations

import hashlib
import os
import socket
import struct
import time

INTEREST, DATA, NAME, GENERIC, PARAMETERS_DIGEST = 0x05, 0x06, 0x07, 0x08, 0x02
CAN_BE_PREFIX, MUST_BE_FRESH, NONCE, LIFETIME = 0x21, 0x12, 0x0A, 0x0C
PARAMETERS, INFO, VALUE = 0x24, 0x2C, 0x2E
SIGNATURE_INFO, SIGNATURE_VALUE, SIGNATURE_TYPE = 0x16, 0x17, 0x1B
SIGNATURE_NONCE, SIGNATURE_TIME = 0x26, 0x28
LP_PACKET, FRAGMENT, SEQUENCE, FRAG_INDEX, FRAG_COUNT = 0x64, 0x50, 0x51, 0x52, 0x53
NACK, NACK_REASON, PIT_TOKEN = 0x0320, 0x0321, 0x62
CONTROL_PARAMETERS, CONTROL_RESPONSE, STATUS_CODE = 0x68, 0x65, 0x66


def number(value: int) -> bytes:
    """A TLV number: TLV-TYPE or TLV-LENGTH."""
    if value < 253:
        return bytes([value])
    if value < 1 << 16:
        return b"\xfd" + struct.pack("!H", value)
    if value < 1 << 32:
        return b"\xfe" + struct.pack("!I", value)
    return b"\xff" + struct.pack("!Q", value)


def nni(value: int) -> bytes:
    """A non-negative integer in its shortest form."""
    for size in (1, 2, 4, 8):
        if value < 1 << (8 * size):
            return value.to_bytes(size, "big")
    raise ValueError(value)


def tlv(kind: int, *values: bytes) -> bytes:
    value = b"".join(values)
    return number(kind) + number(len(value)) + value


def components(uri: str) -> bytes:
    """The components of a plain ASCII name URI."""
    return b"".join(tlv(GENERIC, part.encode()) for part in uri.strip("/").split("/") if part)


def interest(uri: str, lifetime_ms: int = 4000, *extra: bytes) -> bytes:
    return tlv(INTEREST, tlv(NAME, components(uri)), *extra, tlv(NONCE, os.urandom(4)), tlv(LIFETIME, nni(lifetime_ms)))


def data(uri: str, content: bytes, freshness_ms: int = 60_000) -> bytes:
    signed = b"".join((
        tlv(NAME, components(uri)), tlv(0x14, tlv(0x19, nni(freshness_ms))), tlv(0x15, content),
        tlv(SIGNATURE_INFO, tlv(SIGNATURE_TYPE, b"\0")),
    ))
    return tlv(DATA, signed, tlv(SIGNATURE_VALUE, hashlib.sha256(signed).digest()))


def register_parameters(prefix: str) -> bytes:
    return tlv(CONTROL_PARAMETERS, tlv(NAME, components(prefix)))


def command(verb: str, parameters: bytes, *, forge: str = "", time_ms: int | None = None) -> bytes:
    """A v0.3 signed command Interest under /localhost/nfd, by DigestSha256.

    `forge` is "" for a valid command, "signature" for a wrong SignatureValue,
    "parameters" for a wrong ParametersSha256DigestComponent, and "unsigned" for
    a command with neither of them.
    """
    name = components(f"/localhost/nfd/{verb}") + tlv(GENERIC, parameters)
    if forge == "unsigned":
        return tlv(INTEREST, tlv(NAME, name), tlv(MUST_BE_FRESH), tlv(NONCE, os.urandom(4)))
    when = int(time.time() * 1000) if time_ms is None else time_ms
    info = tlv(INFO, tlv(SIGNATURE_TYPE, b"\0"), tlv(SIGNATURE_NONCE, os.urandom(8)), tlv(SIGNATURE_TIME, nni(when)))
    signed = tlv(PARAMETERS) + info
    digest = hashlib.sha256(name + signed).digest()
    if forge == "signature":
        digest = bytes(32)
    tail = signed + tlv(VALUE, digest)
    parameters_digest = hashlib.sha256(tail).digest() if forge != "parameters" else bytes(32)
    return tlv(
        INTEREST, tlv(NAME, name, tlv(PARAMETERS_DIGEST, parameters_digest)), tlv(MUST_BE_FRESH),
        tlv(NONCE, os.urandom(4)), tail,
    )


def with_new_nonce(packet: bytes) -> bytes:
    """The same Interest with another Nonce, which is not signed."""
    at = packet.index(bytes([NONCE, 4])) + 2
    return packet[:at] + os.urandom(4) + packet[at + 4:]


def older_command(verb: str, parameters: bytes, *, forge: str = "", time_ms: int | None = None) -> bytes:
    """A v0.2 command Interest: timestamp, nonce, SignatureInfo and SignatureValue are components."""
    when = int(time.time() * 1000) if time_ms is None else time_ms
    name = b"".join((
        components(f"/localhost/nfd/{verb}"), tlv(GENERIC, parameters), tlv(GENERIC, struct.pack("!Q", when)),
        tlv(GENERIC, os.urandom(8)), tlv(GENERIC, tlv(SIGNATURE_INFO, tlv(SIGNATURE_TYPE, b"\0"))),
    ))
    digest = hashlib.sha256(name).digest() if forge != "signature" else bytes(32)
    name += tlv(GENERIC, tlv(SIGNATURE_VALUE, digest))
    return tlv(INTEREST, tlv(NAME, name), tlv(MUST_BE_FRESH), tlv(NONCE, os.urandom(4)))


def fragment(sequence: int, index: int, count: int, payload: bytes) -> bytes:
    """One NDNLPv2 fragment."""
    return tlv(
        LP_PACKET, tlv(SEQUENCE, struct.pack("!Q", sequence)), tlv(FRAG_INDEX, nni(index)),
        tlv(FRAG_COUNT, nni(count)), tlv(FRAGMENT, payload),
    )


def elements(raw: bytes) -> list[tuple[int, bytes]]:
    """Splits bytes into TLV elements. Leaves out an incomplete last one."""
    found = []
    at = 0
    while at < len(raw):
        try:
            kind, begin = _number_at(raw, at)
            length, begin = _number_at(raw, begin)
        except IndexError:
            break
        if begin + length > len(raw):
            break
        found.append((kind, raw[begin:begin + length]))
        at = begin + length
    return found


def _number_at(raw: bytes, at: int) -> tuple[int, int]:
    first = raw[at]
    if first < 253:
        return first, at + 1
    size = {253: 2, 254: 4, 255: 8}[first]
    if at + 1 + size > len(raw):
        raise IndexError
    return int.from_bytes(raw[at + 1:at + 1 + size], "big"), at + 1 + size


class Wire:
    """A socket to the router, for raw bytes."""

    def __init__(self, uplink: str) -> None:
        scheme, rest = uplink.split("://")
        if scheme == "unix":
            self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.socket.connect(rest)
        else:
            host, port = rest.strip("/").rsplit(":", 1)
            kind = socket.SOCK_DGRAM if scheme == "udp" else socket.SOCK_STREAM
            self.socket = socket.socket(socket.AF_INET, kind)
            self.socket.connect((host, int(port)))
        self.buffered = b""

    def __enter__(self) -> "Wire":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, *packets: bytes) -> None:
        self.socket.sendall(b"".join(packets))

    def exchange(self, packet: bytes) -> bytes:
        """Sends an Interest. Returns the bytes of the answer, which is one element."""
        self.send(packet)
        raw = b""
        while not elements(raw):
            raw += self.socket.recv(1 << 16)
        return raw

    def receive(self, wait_s: float = 1.0) -> list[tuple[int, bytes]]:
        """Reads until nothing arrives for `wait_s` or the connection ends. Returns the elements."""
        self.socket.settimeout(wait_s)
        try:
            while raw := self.socket.recv(1 << 20):
                self.buffered += raw
        except (TimeoutError, ConnectionError):
            pass
        got, self.buffered = self.buffered, b""
        return elements(got)

    def status(self, packet: bytes, wait_s: float = 0.5) -> int | None:
        """Sends a command. Returns the status code of the answer, or None without an answer."""
        self.send(packet)
        for kind, value in self.receive(wait_s):
            if kind == LP_PACKET:
                inner = [body for field, body in elements(value) if field == FRAGMENT]
                [(kind, value)] = elements(inner[0]) if inner else [(None, b"")]
            if kind == DATA:
                content = next(body for field, body in elements(value) if field == 0x15)
                [(_, response)] = elements(content)
                return next(int.from_bytes(body, "big") for field, body in elements(response) if field == STATUS_CODE)
        return None
