"""Networks of byname's and ndnd's routers, unmodified: routes from both sides, while links are cut and heal.

$NDND_BIN names ndnd; without it, tests with ndnd are skipped.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from networks import NDND, NETWORK, AnyRouter, Host, answers, client, environment, network, run, wait_until
from router import binary
from topology import _ip

# ndn-dv repeats the state of its prefixes every 27 to 33 s. A neighbour may miss what was said before its routes.
SYNC_S = 75
RING = {3: [(0, 1), (1, 2), (2, 0)], 6: [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0)]}

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


@needs_ndnd
@pytest.mark.netns
def test_poisoned_prefixes_of_a_router_of_ndnd(directory: Path) -> None:
    """ndnd's router announces what its certificate does not bind: byname's take the rest, and only that."""
    raw = os.urandom(40_000)
    source = directory / "object"
    source.write_bytes(raw)
    with network(directory, ["byname", "byname", "ndnd"], [(0, 1), (1, 2)], with_keys=True, bound=["/video"]) as net:
        first, middle, poisoner = net.routers
        refused = [{"router": f"{NETWORK}/{poisoner.name}", "prefix": "/bank"}]
        with client(poisoner, NDND, "put", "--expose", "/video/x", stdin=source), \
                client(poisoner, NDND, "put", "--expose", "/bank", stdin=source):
            for router in (first, middle):
                wait_until(lambda: fetches(router, "/video/x", raw), f"/video/x at {router.name}", SYNC_S)

                def is_refused() -> bool:
                    told = router.cli("routing", "explain", "/bank/login", "--json").stdout
                    return json.loads(told)["outside_rights"] == refused
                wait_until(is_refused, "refusal", SYNC_S)
                assert "/bank" not in router.cli("routing", "prefixes").stdout
                assert not fetches(router, "/bank", raw)


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


class Fetches(threading.Thread):
    """A stock client fetches one object after the other, all the while."""

    def __init__(self, router: AnyRouter, name: str, raw: bytes) -> None:
        super().__init__(daemon=True)
        self.router, self.object, self.raw = router, name, raw
        self.is_over = False
        self.whole, self.wrong = 0, 0
        # What the client said when nothing came.
        self.missing: list[str] = []

    def run(self) -> None:
        while not self.is_over:
            fetched = run(self.router, NDND, "cat", self.object)
            got = fetched.stdout
            self.whole += got == self.raw
            if got == b"":
                self.missing.append(fetched.stderr.decode().strip())
            self.wrong += got not in (self.raw, b"")

    def go_on(self, what: str, wait_s: float, count: int = 3) -> None:
        """Waits for some further whole objects."""
        wanted = self.whole + count
        wait_until(lambda: self.whole >= wanted, f"objects after {what}", wait_s)


def kill(router: AnyRouter) -> None:
    router.process.send_signal(signal.SIGKILL)
    router.process.wait()


@needs_ndnd
@pytest.mark.netns
@pytest.mark.long
def test_files_through_all_faults(directory: Path) -> None:
    """A mesh of byname alone. Every byte that arrives is right, and what is connected goes on, through a cut, a partition,
    restarts in order and by kill, and a prefix that goes and comes back."""
    raw = os.urandom(400_000)
    source = directory / "object"
    source.write_bytes(raw)
    edges = [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)]
    with network(directory, ["byname"] * 4, edges, caches=False) as net:
        first, second, third, last = net.routers
        producer = (NDND, "put", "--expose", "/app/last")
        fetching = Fetches(first, "/app/last", raw)
        with client(last, *producer, stdin=source):
            wait_until(lambda: fetches(first, "/app/last", raw), "the object", SYNC_S)
            fetching.start()
            fetching.go_on("nothing", 20)
            # The direct way, then the way by two others, and back.
            net.set_link(3, 0, up=False)
            fetching.go_on("a cut", 20)
            net.set_link(0, 2, up=False)
            fetching.go_on("another cut", 20)
            net.set_link(3, 0, up=True)
            net.set_link(0, 2, up=True)
            fetching.go_on("both are healed", 20)

            # Until hellos are there again, a router in the middle is on the only way.
            def all_used() -> bool:
                links = json.loads(first.cli("routing", "neighbors", "--json").stdout)
                return len(links) == 3 and all(link["used"] for link in links)
            wait_until(all_used, "all links", 20)
            assert fetching.missing == [], "a way was left all the time"
            # A router on a way restarts in order, and another is killed.
            third.stop()
            fetching.go_on("a router has stopped", 20)
            third.start()
            kill(second)
            fetching.go_on("a router was killed", 20)
            second.start()
            fetching.go_on("both are back", 20)
            assert fetching.missing == [], "a way was left all the time"
            # No way is left, for longer than a client waits.
            net.set_link(3, 0, up=False)
            net.set_link(2, 3, up=False)
            time.sleep(8)
            net.set_link(3, 0, up=True)
            net.set_link(2, 3, up=True)
            fetching.go_on("a partition", SYNC_S)
        # The producer is gone, and with it its prefix.
        def is_gone() -> bool:
            return "/app/last" not in first.cli("routing", "prefixes").stdout
        wait_until(is_gone, "the withdrawn prefix", SYNC_S)
        with client(last, *producer, stdin=source):
            fetching.go_on("the prefix is back", SYNC_S)
            fetching.is_over = True
            fetching.join(60)
        assert fetching.wrong == 0


@needs_ndnd
@pytest.mark.netns
@pytest.mark.long
def test_ring_of_three_each_through_all_faults(directory: Path) -> None:
    """byname and ndnd take turns. Stock clients fetch in both directions, all the while, as each link is cut and healed, each
    router between ends in order or by kill and starts again, and both prefixes are withdrawn and announced again."""
    raw = os.urandom(100_000)
    source = directory / "object"
    source.write_bytes(raw)
    # byname's routers name ndnd's: a router of ndnd closes its face to a neighbour that it cannot send to, for good.
    edges = [(0, 1), (2, 1), (2, 3), (4, 3), (4, 5), (0, 5)]
    with network(directory, ["byname", "ndnd"] * 3, edges, caches=False) as net:
        ours, theirs, killed = net.routers[0], net.routers[3], net.routers[4]
        wanted = {"/app/ours", "/app/theirs"}
        both = [Fetches(ours, "/app/theirs", raw), Fetches(theirs, "/app/ours", raw)]

        def go_on(what: str) -> None:
            for fetching in both:
                fetching.go_on(f"{what}, at {fetching.router.name}", SYNC_S, 2)

        def prefixes() -> set[str]:
            told = killed.cli("routing", "prefixes").stdout
            return {prefix for prefix in wanted if prefix in told}

        @contextlib.contextmanager
        def producers() -> Iterator[None]:
            with client(ours, NDND, "put", "--expose", "/app/ours", stdin=source), \
                    client(theirs, NDND, "put", "--expose", "/app/theirs", stdin=source):
                yield

        with producers():
            for fetching in both:
                wait_until(lambda: fetches(fetching.router, fetching.object, raw), fetching.object, SYNC_S)
                fetching.start()
            go_on("nothing")
            for near, far in edges:
                net.set_link(near, far, up=False)
                go_on(f"{near} and {far} are cut")
                net.set_link(near, far, up=True)
                go_on(f"{near} and {far} are healed")
            for between in net.routers[1:3] + net.routers[4:]:
                if between is killed:
                    kill(between)
                else:
                    between.stop()
                go_on(f"{between.name} has ended")
                between.start()
                go_on(f"{between.name} is back")
            wait_until(lambda: prefixes() == wanted, "prefixes", SYNC_S)
        wait_until(lambda: not prefixes(), "withdrawn prefixes", SYNC_S)
        with producers():
            go_on("the prefixes are back")
            for fetching in both:
                fetching.is_over = True
            for fetching in both:
                fetching.join(90)
        assert [fetching.wrong for fetching in both] == [0, 0]


@pytest.mark.netns
@pytest.mark.long
def test_stale_routes_after_a_kill(directory: Path) -> None:
    """A router that was killed has its routes at once when it is back, before it hears of anybody, and drops them later."""
    with network(directory, ["byname"] * 2, [(0, 1)]) as net:
        first, last = net.routers
        with client(last, str(binary()), "ping-server", "--announce", "/app/last"):
            wait_until(lambda: answers(first, "/app/last"), "a ping", 20)
            kill(first)
            net.set_link(0, 1, up=False)
            first.start()
            # Nobody can have told it.
            assert "/app/last" in first.cli("route", "list").stdout
            net.set_link(0, 1, up=True)
            wait_until(lambda: answers(first, "/app/last"), "a ping after the restart", 20)
            kill(first)
            net.set_link(0, 1, up=False)
            first.start()
            assert "/app/last" in first.cli("route", "list").stdout
            wait_until(lambda: "/app/last" not in first.cli("route", "list").stdout, "the end of stale routes", 60)
            net.set_link(0, 1, up=True)
            wait_until(lambda: answers(first, "/app/last"), "a ping at the end", 30)


@pytest.mark.netns
@pytest.mark.long
def test_links_that_come_back_and_links_that_flap(directory: Path) -> None:
    """A link that was down costs more until hold-down is over, and for longer if it flaps. The way round is used meanwhile."""
    with network(directory, ["byname"] * 3, RING[3], routing='hold_down = "3 s"\n') as net:
        near, far = net.routers[0], net.routers[2]

        def link() -> dict:
            told = json.loads(near.cli("routing", "neighbors", "--json").stdout)
            return next(link for link in told if link["router"] == f"{NETWORK}/{far.name}")

        def is_direct() -> bool:
            ways = json.loads(near.cli("routing", "explain", "/app/far/ping", "--json").stdout)["ways"]
            return any(way["used"] == "best" and way["neighbor"] == f"{NETWORK}/{far.name}" for way in ways)

        with client(far, str(binary()), "ping-server", "--announce", "/app/far"):
            wait_until(is_direct, "the direct way", 20)
            net.set_link(2, 0, up=False)
            wait_until(lambda: not is_direct() and answers(near, "/app/far"), "the way round", 20)
            net.set_link(2, 0, up=True)
            wait_until(lambda: link()["hello"] == "up", "hellos", 20)
            back = time.monotonic()
            assert not link()["used"] and not is_direct() and answers(near, "/app/far")
            wait_until(is_direct, "the direct way after hold-down", 20)
            assert time.monotonic() - back > 2 and link()["damped_ms"] is None
            for _ in range(8):
                downs = link()["downs"]
                net.set_link(2, 0, up=False)
                wait_until(lambda: link()["downs"] > downs, "the end of hellos", 20)
                net.set_link(2, 0, up=True)
                wait_until(lambda: link()["hello"] == "up", "hellos", 20)
                if link()["damped_ms"]:
                    break
            # After hold-down, it is still left alone.
            time.sleep(4)
            damped = link()
            assert damped["damped_ms"] and not damped["used"] and not is_direct(), damped
            assert "flaps, and costs more" in near.log()
            assert answers(near, "/app/far")
            wait_until(is_direct, "the direct way after damping", 90)


@pytest.mark.netns
def test_network_in_three_commands(directory: Path) -> None:
    """As the README says it: routers on one link find each other, with keys, and without a word of configuration but the
    socket, which three routers of one file system cannot share."""
    spaces = [f"bnet3-{os.getpid()}-{name}" for name in ("switch", "r1", "r2", "r3")]
    switch, hosts = spaces[0], spaces[1:]
    with contextlib.ExitStack() as stack:
        for space in spaces:
            _ip("netns", "add", space)
            stack.callback(_ip, "netns", "del", space)
            _ip("-n", space, "link", "set", "lo", "up")
        _ip("-n", switch, "link", "add", "br0", "type", "bridge", "mcast_snooping", "0")
        _ip("-n", switch, "link", "set", "br0", "up")
        environ = {**os.environ, "HOME": str(directory), "BYNAME_KEYS": str(directory / "anchor")}
        folder = ("--folder", str(directory / "anchor"))
        byname = str(binary())
        subprocess.run([byname, "key", *folder, "network", "/example", "r1", "r2", "r3"], cwd=directory, env=environ,
                       check=True, capture_output=True)
        routers = []
        for number, space in enumerate(hosts, 1):
            _ip("-n", space, "link", "add", "eth0", "type", "veth", "peer", "name", f"port{number}", "netns", switch)
            _ip("-n", switch, "link", "set", f"port{number}", "master", "br0", "up")
            _ip("-n", space, "addr", "add", f"10.78.0.{number}/24", "dev", "eth0")
            _ip("-n", space, "link", "set", "eth0", "up")
            router = Host(directory, f"r{number}", space, environ)
            routers.append(stack.enter_context(router))
        first, _, last = routers
        with client(last, byname, "ping-server", "--announce", "/app/last"):
            wait_until(lambda: answers(first, "/app/last"), "a ping", 30)
            def lines() -> list[str]:
                return run(first, byname, "routing", "neighbours").stdout.decode().splitlines()
            # Each neighbour has a face of its own, and the group's is not used beside it.
            def has_own_ways() -> bool:
                used = [line for line in lines() if "in use" in line]
                return len(used) == 2 and all("udp4://10.78.0." in line for line in used)
            wait_until(has_own_ways, "ways of their own", 20)
            time.sleep(3)
            assert has_own_ways(), lines()
            assert not any("down" in line for line in lines()), lines()
