"""Sends Interests for distinct names as fast as Python can: `flood.py UPLINK PREFIX SECONDS`.

It reads and drops the answers, because the router stops reading from a local
client that does not read. Prints the number of Interests sent. It runs in a
separate process, so that it takes no time from the tests' event loop.
"""

import os
import struct
import sys
import threading
import time

import packets

BATCH = 64


def drain(wire: packets.Wire) -> None:
    while wire.socket.recv(1 << 20):
        pass


def main(uplink: str, prefix: str, seconds: float) -> None:
    template = packets.interest(f"{prefix}/{'n' * 8}/with/a/longer/name", 4000)
    name_at = template.index(b"n" * 8)
    nonce_at = template.index(bytes([packets.NONCE, 4]), name_at) + 2
    datagrams = uplink.startswith("udp")
    sent = 0
    until = time.monotonic() + seconds
    with packets.Wire(uplink) as wire:
        wire.socket.setblocking(True)
        threading.Thread(target=drain, args=[wire], daemon=True).start()
        while time.monotonic() < until:
            batch = []
            for _ in range(BATCH):
                packet = bytearray(template)
                packet[name_at:name_at + 8] = b"%08x" % sent
                packet[nonce_at:nonce_at + 4] = struct.pack("!I", sent ^ 0x5A5A5A5A)
                sent += 1
                batch.append(packet)
            if datagrams:
                for packet in batch:
                    wire.socket.send(packet)
            else:
                wire.socket.sendall(b"".join(batch))
    print(sent)
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
