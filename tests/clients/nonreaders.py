"""Peers that send Interests and never read: `nonreaders.py UPLINK NAME NAMES PEERS ASKS SECONDS`.

Each of PEERS connections sends ASKS Interests for NAME/0 to NAME/(NAMES-1), as
far as the router accepts them, and reads nothing. UPLINK is as in
NDN_CLIENT_TRANSPORT, or `ws://HOST:PORT`. The program prints "ready" when all
have sent their Interests. Then it waits until the router has closed all
connections, SECONDS at most, and prints the number of closed ones. It runs in a
separate process, so that it takes no time from the tests' event loop.
"""

import contextlib
import os
import select
import socket
import sys
import time
from urllib.parse import urlsplit

import packets

HANDSHAKE = (
    "GET / HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


def message(packet: bytes) -> bytes:
    """A client's WebSocket message with a mask of zeros."""
    assert len(packet) < 126
    return bytes([0x82, 0x80 | len(packet)]) + bytes(4) + packet


def connect(uplink: str) -> socket.socket:
    url = urlsplit(uplink)
    if url.scheme == "unix":
        peer = socket.socket(socket.AF_UNIX)
        peer.connect(url.path)
    else:
        peer = socket.socket()
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        peer.connect((url.hostname, url.port))
    if url.scheme == "ws":
        peer.sendall(HANDSHAKE.format(host=url.netloc).encode())
        answer = b""
        while not answer.endswith(b"\r\n\r\n"):
            byte = peer.recv(1)
            if not byte:
                raise ConnectionResetError
            answer += byte
    peer.setblocking(False)
    return peer


def is_closed(peer: socket.socket) -> bool:
    poll = select.poll()
    poll.register(peer, 0)
    return any(events & (select.POLLHUP | select.POLLERR) for _, events in poll.poll(0))


def main(uplink: str, name: str, names: int, peers: int, asks: int, seconds: float) -> None:
    wrap = message if uplink.startswith("ws") else bytes
    wires, refused = [], 0
    for _ in range(peers):
        try:
            peer = connect(uplink)
        except ConnectionError:
            refused += 1
            continue
        with contextlib.suppress(BlockingIOError, ConnectionError):
            peer.send(b"".join(wrap(packets.interest(f"{name}/{i % names}")) for i in range(asks)))
        wires.append(peer)
    print("ready", flush=True)
    until = time.monotonic() + seconds
    while (closed := refused + sum(is_closed(peer) for peer in wires)) < peers and time.monotonic() < until:
        time.sleep(0.1)
    print(closed, flush=True)
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *(int(text) for text in sys.argv[3:6]), float(sys.argv[6]))
