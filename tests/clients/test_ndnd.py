"""ndnd's client tools and its routing daemon, unmodified. $NDND_BIN names the binary; without it, all tests are skipped.

ndnd uses /localhost over Unix sockets and /localhop over TCP, even on its own host. Its clients have no UDP.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from router import Router
from topology import loopback_line

NDND = os.environ.get("NDND_BIN", "")

pytestmark = pytest.mark.skipif(not NDND, reason="NDND_BIN names no ndnd to test with")

TRANSPORTS = ["unix", "tcp"]


def environment(router: Router, transport: str) -> dict[str, str]:
    return {**os.environ, "HOME": str(router.directory), "NDN_CLIENT_TRANSPORT": router.uplink(transport)}


def ndnd(router: Router, transport: str, *args: str, timeout: float = 30) -> bytes:
    """Runs an ndnd command that must succeed. Returns its output."""
    done = subprocess.run(
        [NDND, *args], env=environment(router, transport), stdin=subprocess.DEVNULL, capture_output=True,
        timeout=timeout,
    )
    assert done.returncode == 0, f"ndnd {' '.join(args)}: {done.returncode}\n{done.stdout!r}\n{done.stderr.decode()}"
    return done.stdout


@contextlib.contextmanager
def ndnd_serves(router: Router, transport: str, *args: str, stdin: Path | None = None) -> Iterator[Path]:
    """Runs an ndnd command in the background. Yields the path of its output."""
    log_path = router.directory / f"{router.name}-{args[0]}-{transport}.log"
    with contextlib.ExitStack() as stack:
        log = stack.enter_context(log_path.open("wb"))
        source = stack.enter_context(stdin.open("rb")) if stdin else subprocess.DEVNULL
        process = subprocess.Popen(
            [NDND, *args], env=environment(router, transport), stdin=source, stdout=log, stderr=log,
        )
        try:
            yield log_path
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


# ndn-dv repeats what it announces every 27 to 33 s. Its neighbours may miss the first announcement, because it comes
# before their routes.
SYNC_S = 70


def wait_until(holds: Callable[[], bool], what: str, wait_s: float) -> None:
    deadline = time.monotonic() + wait_s
    while not holds():
        assert time.monotonic() < deadline, f"{what}: not within {wait_s} s"
        time.sleep(0.1)


def prefixes(router: Router) -> set[str]:
    routes = json.loads(router.cli("route", "list", "--json").stdout)
    return {route["prefix"] for route in (routes["routes"] if isinstance(routes, dict) else routes)}


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_ping(router: Router, transport: str) -> None:
    with ndnd_serves(router, transport, "pingserver", "/ndnd/host"):
        wait_until(lambda: any("/ndnd/host" in prefix for prefix in prefixes(router)), "registration", 10)
        told = ndnd(router, transport, "ping", "/ndnd/host", "-c", "3", "-i", "50").decode()
        assert "3 received, 0% lost" in told


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_objects(router: Router, transport: str) -> None:
    raw = os.urandom(300_000)
    source = router.directory / "object"
    source.write_bytes(raw)
    with ndnd_serves(router, transport, "put", "/ndnd/object", stdin=source):
        wait_until(lambda: "/ndnd/object" in prefixes(router), "registration", 10)
        assert ndnd(router, transport, "cat", "/ndnd/object") == raw


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_forwarder_control(router: Router, transport: str) -> None:
    def fw(*args: str) -> str:
        return ndnd(router, transport, "fw", *args).decode()

    assert "version=byname" in fw("status")
    # In the syntax of ndnd's documentation.
    assert "Uri=udp4://127.0.0.1:9" in fw("face-create", "remote=udp://127.0.0.1:9", "persistency=permanent")
    assert "Status=200" in fw("route-add", "prefix=/x", "face=udp://127.0.0.1:9", "cost=7")
    assert re.search(r"prefix=/x nexthop=\d+ .*cost=7", fw("route-list"))
    assert "  /x nexthops=" in fw("fib-list")
    multicast = "/localhost/nfd/strategy/multicast"
    assert "Status=200" in fw("strategy-set", "prefix=/x", f"strategy={multicast}")
    assert f"prefix=/x strategy={multicast}/v=5" in fw("strategy-list")
    assert "Status=200" in fw("strategy-unset", "prefix=/x")
    assert "Status=200" in fw("route-remove", "prefix=/x", "face=udp4://127.0.0.1:9")
    assert "Status=200" in fw("face-destroy", "face=udp4://127.0.0.1:9")
    assert "udp4://127.0.0.1:9" not in fw("face-list")
    assert "capacity=65536" in fw("cs-info")


def dv_config(router: Router, neighbours: list[Router]) -> Path:
    path = router.directory / f"{router.name}.yml"
    dv = {
        "network": "/net", "router": f"/net/{router.name}", "keychain": "insecure", "trust_anchors": [],
        "advertise_interval": 1000, "router_dead_interval": 4000,
        "neighbors": [{"uri": f"udp://{neighbour.host}:{neighbour.port}"} for neighbour in neighbours],
    }
    path.write_text(json.dumps({"dv": dv}))
    return path


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_routing_daemon(directory: Path, transport: str) -> None:
    """Three routers, each with ndn-dv: an announcement at one end reaches the other, and so does its withdrawal."""
    raw = os.urandom(50_000)
    source = directory / "object"
    source.write_bytes(raw)
    with loopback_line(directory, 3) as routers, contextlib.ExitStack() as stack:
        near, middle, far = routers
        for router, neighbours in ((near, [middle]), (middle, [near, far]), (far, [middle])):
            stack.enter_context(ndnd_serves(router, transport, "dv", "run", str(dv_config(router, neighbours))))
        with ndnd_serves(far, "unix", "put", "--expose", "/app/object", stdin=source):
            wait_until(lambda: "/app/object" in prefixes(near), "the route over three routers", SYNC_S)
            assert ndnd(near, "unix", "cat", "/app/object") == raw
        wait_until(lambda: "/app/object" not in prefixes(near), "the withdrawal", SYNC_S)
        # The daemon notices a dead router and removes its routes.
        wait_until(lambda: any("/net/router2" in prefix for prefix in prefixes(near)), "the far router", SYNC_S)
        assert far.stop() == 0
        wait_until(lambda: not any("/net/router2" in prefix for prefix in prefixes(near)), "its end", SYNC_S)
