"""Networks of byname's and ndnd's routers, unmodified: routes from both sides, while links are cut and heal.

$NDND_BIN names ndnd; without it, tests with ndnd are skipped.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from networks import NDND, NETWORK, AnyRouter, client, environment, network, run, wait_until
from router import binary

# ndn-dv repeats the state of its prefixes every 27 to 33 s. A neighbour may miss what was said before its routes.
SYNC_S = 75
RING = {3: [(0, 1), (1, 2), (2, 0)], 6: [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0)]}

# These routers do not take the number of packet threads of other tests.
OWN_CONFIGURATION = True

needs_ndnd = pytest.mark.skipif(not NDND, reason="NDND_BIN names no ndnd to test with")


def fetches(router: AnyRouter, name: str, raw: bytes) -> bool:
    return run(router, NDND, "cat", name).stdout == raw


def ring(directory: Path, kinds: list[str], size: int, with_keys: bool = False) -> None:
    """Prefixes from both kinds of routers reach all others. A cut and its healing cost a running fetch nothing."""
    raw = os.urandom(size)
    source = directory / "object"
    source.write_bytes(raw)
    last = len(kinds) - 1
    with network(directory, kinds, RING[len(kinds)], with_keys) as net:
        first, other = net.routers[0], net.routers[last]
        with client(first, NDND, "put", "--expose", "/app/first", stdin=source), \
                client(other, NDND, "put", "--expose", "/app/last", stdin=source):
            for router in net.routers[1:]:
                wait_until(lambda: fetches(router, "/app/first", raw), f"/app/first at {router.name}", SYNC_S)
            for router in net.routers[:-1]:
                wait_until(lambda: fetches(router, "/app/last", raw), f"/app/last at {router.name}", SYNC_S)
            told = run(first, NDND, "dv", "status").stdout.decode()
            assert f"routerName=/net/{first.name}" in told, told
            running = subprocess.Popen([NDND, "cat", "/app/last"], env=environment(first), stdout=subprocess.PIPE)
            # The direct link between the two.
            net.set_link(last, 0, up=False)
            fetched = running.communicate(timeout=60)[0]
            # ndnd says no hellos. Its dead interval is as long as the patience of its client.
            assert fetched == raw or (fetched == b"" and kinds[last] == "ndnd")
            wait_until(lambda: fetches(first, "/app/last", raw), "the way round", 40)
            net.set_link(last, 0, up=True)
            assert fetches(first, "/app/last", raw)


@needs_ndnd
@pytest.mark.netns
@pytest.mark.parametrize("kinds", [["byname", "ndnd", "byname"], ["byname", "ndnd", "ndnd"]], ids=" ".join)
def test_small_ring_of_both(directory: Path, kinds: list[str]) -> None:
    ring(directory, kinds, 40_000)


@needs_ndnd
@pytest.mark.netns
def test_small_ring_of_both_with_keys(directory: Path) -> None:
    """Each kind makes its own keys, byname's anchor signs them all, and each kind believes the other."""
    ring(directory, ["byname", "ndnd", "byname"], 40_000, with_keys=True)


@needs_ndnd
@pytest.mark.netns
@pytest.mark.long
def test_ring_of_three_each(directory: Path) -> None:
    ring(directory, ["byname", "ndnd", "byname", "ndnd", "byname", "ndnd"], 3_000_000)


def knows(router: AnyRouter, others: list[AnyRouter]) -> bool:
    """Whether a router has routes to all others: so ndnd's scenarios find out whether routing has converged."""
    told = run(router, NDND, "fw", "route-list").stdout.decode()
    return all(f"{NETWORK}/{other.name}" in told for other in others if other is not router)


@needs_ndnd
@pytest.mark.netns
@pytest.mark.parametrize("late", ["byname", "ndnd"])
def test_router_that_joins_late(directory: Path, late: str) -> None:
    """ndnd's scenario 002: a router whose only link is down at first. Then, as in scenario 001, objects go both ways."""
    raw = os.urandom(200_000)
    source = directory / "object"
    source.write_bytes(raw)
    kinds = ["byname", "ndnd", "byname", late]
    with network(directory, kinds, [*RING[3], (2, 3)], cut=(2, 3)) as net:
        *others, joining = net.routers
        with client(others[0], NDND, "put", "--expose", "/net/first/test", stdin=source), \
                client(joining, NDND, "put", "--expose", "/net/late/test", stdin=source):
            for router in others:
                wait_until(lambda: knows(router, others), f"routes at {router.name}", SYNC_S)
            assert not any(knows(router, [joining]) for router in others) and not knows(joining, others)
            net.set_link(2, 3, up=True)
            for router in net.routers:
                wait_until(lambda: knows(router, net.routers), f"all routes at {router.name}", SYNC_S)
            wait_until(lambda: fetches(joining, "/net/first/test", raw), "an object for the late one", SYNC_S)
            for router in others:
                wait_until(lambda: fetches(router, "/net/late/test", raw), f"its object at {router.name}", SYNC_S)


@pytest.mark.netns
def test_cut_of_authenticated_routers(directory: Path) -> None:
    """byname alone, with keys: a cut costs a ping stream less than half a second."""
    with network(directory, ["byname"] * 3, RING[3], with_keys=True) as net:
        near, far = net.routers[0], net.routers[2]
        with client(far, str(binary()), "ping-server", "--announce", "/app/far"):
            def direct() -> bool:
                told = near.cli("routing", "explain", "/app/far/ping", check=False).stdout
                return f"through /net/{far.name}" in told and "lowest cost" in told.split("through /net/" + far.name)[1]
            wait_until(direct, "the direct way", 20)
            ping = subprocess.Popen(
                [str(binary()), "ping", "/app/far", "-c", "300", "-i", "10", "--timeout", "400", "--json"],
                env=environment(near), stdout=subprocess.PIPE,
            )
            time.sleep(0.5)
            net.set_link(2, 0, up=False)
            told = ping.communicate(timeout=60)[0].decode()
            lost = json.loads(told)["transmitted"] - json.loads(told)["received"]
            # 50 pings are half a second. The machine of the tests may be slow, so twice that is permitted.
            assert 0 < lost < 100, told
            net.set_link(2, 0, up=True)
