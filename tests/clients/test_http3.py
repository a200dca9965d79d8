"""ndnd's face over HTTP/3 (WebTransport), unmodified. $NDND_BIN names the binary; without it, the test is skipped."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from router import Router, free_ports

NDND = os.environ.get("NDND_BIN", "")
OWN_CONFIGURATION = True

pytestmark = pytest.mark.skipif(not NDND, reason="NDND_BIN names no ndnd to test with")


def eventually(holds: Callable[[], bool], what: str, wait_s: float) -> None:
    deadline = time.monotonic() + wait_s
    while not holds():
        assert time.monotonic() < deadline, f"{what}: not within {wait_s} s"
        time.sleep(0.1)


def certificate(directory: Path) -> tuple[Path, Path, str]:
    """A certificate, its key, and its fingerprint."""
    path, key = directory / "tls.pem", directory / "tls.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "3650",
         "-subj", "/CN=ndnd", "-keyout", str(key), "-out", str(path)], check=True, capture_output=True,
    )
    told = subprocess.run(
        ["openssl", "x509", "-noout", "-fingerprint", "-sha256", "-in", str(path)],
        check=True, capture_output=True, text=True,
    )
    return path, key, told.stdout.strip().partition("=")[2]


def test_http3_face(directory: Path) -> None:
    """byname connects to ndnd's forwarder over HTTP/3, and fetches what is there."""
    raw = os.urandom(1_000_000)
    source = directory / "object"
    source.write_bytes(raw)
    (port, free), (path, key, fingerprint) = free_ports(2), certificate(directory)
    socket = directory / "ndnd.sock"
    config = directory / "ndnd.yml"
    config.write_text(json.dumps({
        "core": {"log_level": "WARN"},
        "faces": {
            "unix": {"socket_path": str(socket)}, "tcp": {"enabled": False}, "websocket": {"enabled": False},
            "udp": {"port_unicast": free, "enabled_multicast": False},
            "http3": {"enabled": True, "bind": "127.0.0.1", "port": port, "tls_cert": str(path), "tls_key": str(key)},
        },
    }))
    environment = {**os.environ, "HOME": str(directory), "NDN_CLIENT_TRANSPORT": f"unix://{socket}"}
    # ndnd's link service ends with a panic if a PIT token has not six bytes. With one thread, byname sends none.
    router = Router(directory, threads=1, extra_config=f'[tls]\npeers = ["{fingerprint}"]\n')
    with contextlib.ExitStack() as stack:
        log = stack.enter_context((directory / "ndnd.log").open("wb"))

        def starts(*args: str, stdin: object = subprocess.DEVNULL) -> None:
            process = subprocess.Popen([NDND, *args], env=environment, stdin=stdin, stdout=log, stderr=log)
            stack.callback(process.wait)
            stack.callback(process.kill)

        starts("fw", "run", str(config))
        eventually(socket.exists, "ndnd's socket", 10)
        starts("put", "/ndnd/object", stdin=stack.enter_context(source.open("rb")))
        stack.enter_context(router)
        uri = f"quic://127.0.0.1:{port}"
        eventually(lambda: router.cli("face", "create", uri, check=False).returncode == 0, "a face over HTTP/3", 10)
        router.cli("route", "add", "/ndnd", uri)
        # Not with `ndnd cat`, which gives up: when many Interests come at once, ndnd does not answer some of them.
        router.cli("get", "/ndnd/object", "-o", str(directory / "copy"))
        assert (directory / "copy").read_bytes() == raw, router.log()
