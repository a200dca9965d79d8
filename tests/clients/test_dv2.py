"""What the end-to-end scenarios of ndnd's branch dv2 check (its folder e2e, a841cc27), with byname as forwarder and router, and
`protocol = "dv2"`. Scenarios 001 and 002 are together in one test, and so are 003 and 004.

$NDND_BIN names ndnd, whose clients take part, and $ALO_LATEST_BIN its example of a chat; without them, tests are skipped.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from pathlib import Path

import pytest
from ndn.types import InterestNack, InterestTimeout

import pyndn
from networks import NDND, NETWORK, AnyRouter, client, environment, network, run, wait_until
from router import binary
from test_routing import RING, fetches, knows, needs_ndnd

ALO_LATEST = os.environ.get("ALO_LATEST_BIN", "")
DV2 = 'protocol = "dv2"\n'
# The first chat of a router registers, its prefix goes round, and State Vector Sync repeats itself.
CHAT_S = 60

needs_alo_latest = pytest.mark.skipif(not ALO_LATEST, reason="ALO_LATEST_BIN names no chat of ndnd to test with")
pytestmark = pytest.mark.netns


def routes(router: AnyRouter) -> str:
    return run(router, NDND, "fw", "route-list").stdout.decode()


@needs_ndnd
def test_001_and_002_objects_and_a_router_that_joins_late(directory: Path) -> None:
    """Objects go between all routers once routing has converged, and to and from one whose only link was down at first."""
    raw = os.urandom(65_536)
    source = directory / "object"
    source.write_bytes(raw)
    with network(directory, ["byname"] * 4, [*RING[3], (2, 3)], with_keys=True, cut=(2, 3), routing=DV2) as net:
        *others, late = net.routers
        with contextlib.ExitStack() as producers:
            for router in net.routers:
                name = f"{NETWORK}/{router.name}/test"
                producers.enter_context(client(router, NDND, "put", "--expose", name, stdin=source))
            for router in others:
                wait_until(lambda: knows(router, others), f"routes at {router.name}", 20)
            assert not any(knows(router, [late]) for router in others) and not knows(late, others)
            for router in others:
                for other in others:
                    name = f"{NETWORK}/{other.name}/test"
                    wait_until(lambda: fetches(router, name, raw), f"{name} at {router.name}", 20)
            net.set_link(2, 3, up=True)
            for router in net.routers:
                wait_until(lambda: knows(router, net.routers), f"all routes at {router.name}", 30)
            for router in others:
                for (consumer, producer) in ((router, late), (late, router)):
                    name = f"{NETWORK}/{producer.name}/test"
                    wait_until(lambda: fetches(consumer, name, raw), f"{name} at {consumer.name}", 20)


# Only the anchor signs hosts, and hosts command for themselves.
HOSTS_SCHEMA = """
#network: "net"
#command: "localhop"/"nfd"/"rib"/_/_ <= #host
#host: #network/host/#KEY <= #anchor
#anchor: #network/#KEY
#KEY: "KEY"/_/_/_
"""


@needs_ndnd
def test_003_and_004_prefixes_of_hosts_and_who_may_insert_them(directory: Path) -> None:
    """Hosts without routing insert prefixes at their router, by UDP. Those of the host with a key that the schema permits
    go through the network; those of a stranger, and of a host that has its certificate from another host, do not."""
    raw = os.urandom(65_536)
    source = directory / "object"
    source.write_bytes(raw)
    schema = directory / "hosts.trust"
    schema.write_text(HOSTS_SCHEMA)
    trust = (
        f'[trust]\nanchors = ["{directory}/anchor.ndncert"]\nrule = "schema"\nschema = "{schema}"\n'
        '[[authorization]]\nsigner = "any"\nmodules = ["faces", "fib", "rib", "cs", "strategy-choice", "config"]\n'
        '[[authorization]]\nfrom = "network"\nsigner = "trusted"\nmodules = ["rib"]\n'
    )
    kinds = ["byname"] * 3 + ["host", "stranger", "issued"]
    edges = [*RING[3], (3, 2), (4, 2), (5, 2)]
    with network(directory, kinds, edges, with_keys=True, extra_config=trust, routing=DV2) as net:
        first, second, hub, host, *refused = net.routers
        inserted = f"{NETWORK}/{{}}/inserted".format
        with contextlib.ExitStack() as producers:
            for router in (host, *refused):
                producers.enter_context(client(router, NDND, "put", "--expose", inserted(router.name), stdin=source))
            for router in (first, second, hub):
                wait_until(lambda: fetches(router, inserted(host.name), raw), f"the host's object at {router.name}", 30)
            for router in refused:
                wait_until(lambda: "the hub refuses" in router.log(), f"refusal of {router.name}", 30)
                assert not any(f"{NETWORK}/{router.name}" in routes(at) for at in (first, second, hub))
                assert not fetches(first, inserted(router.name), raw)
            # No routing runs on a host.
            assert f"{NETWORK}/{first.name}" not in routes(host)
            assert knows(first, [second, hub])


class Chat:
    """One member: ndnd's example alo-latest, beside a router."""

    def __init__(self, router: AnyRouter) -> None:
        self.router, self.heard = router, router.directory / f"{router.name}-chat.log"
        with self.heard.open("wb") as log:
            self.process = subprocess.Popen(
                [ALO_LATEST, f"/{router.name}"], env=environment(router), stdin=subprocess.PIPE, stdout=log, stderr=log,
            )

    def expose(self) -> None:
        """Announces its prefixes to the network. ndnd's branch main has no word for that in this example; dv2 has."""
        def own() -> list[dict]:
            routes = json.loads(self.router.cli("route", "list", "/ndn/svs", "--json").stdout)
            return [route for route in routes if route["origin"] == "app"]
        wait_until(lambda: len(own()) == 2, f"registration at {self.router.name}", 20)
        for route in own():
            self.router.cli("route", "add", route["prefix"], str(route["face_id"]), "--origin", "client")

    def say(self, line: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def hears(self, line: str) -> bool:
        return line in self.heard.read_text(errors="replace")

    def __enter__(self) -> "Chat":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


GROUP = "/ndn/svs/32=svs"


def ways_of_group(router: AnyRouter) -> int:
    fib = json.loads(router.cli("fib", "list", "--json").stdout)
    return sum(len(entry["nexthops"]) for entry in fib if entry["prefix"] == GROUP)


def chats(routers: list[AnyRouter]) -> None:
    """Two members say two things each, and all hear them. The group's sync Interests go to all members."""
    for router in routers:
        told = run(router, NDND, "fw", "strategy-set", f"prefix={GROUP}", "strategy=/localhost/nfd/strategy/multicast")
        assert told.returncode == 0, told.stderr
    with contextlib.ExitStack() as stack:
        members = [stack.enter_context(Chat(router)) for router in routers]
        for member in members:
            member.expose()
        for router in routers:
            wait_until(lambda: ways_of_group(router) >= 2, f"the group at {router.name}", CHAT_S)
        lines = []
        for speaker in members[:2]:
            for number in range(2):
                lines.append(f"message {number} from {speaker.router.name}")
                speaker.say(lines[-1])
        for member in members[2:]:
            for line in lines:
                wait_until(lambda: member.hears(line), f"{line!r} at {member.router.name}", CHAT_S)


@needs_ndnd
@needs_alo_latest
def test_005_a_group_hears_all_its_members(directory: Path) -> None:
    edges = [*RING[6], (0, 3)]
    with network(directory, ["byname"] * 6, edges, with_keys=True, routing=DV2) as net:
        for router in net.routers:
            wait_until(lambda: knows(router, net.routers), f"routes at {router.name}", 30)
        chats(net.routers)


@needs_ndnd
@needs_alo_latest
async def test_006_cores_know_routers_and_edges_know_prefixes(directory: Path) -> None:
    """Core routers take no application's prefix, and carry what edges ask for all the same: the consumer gives the name of the
    edge router as the forwarding hint, where dv2's forwarders find it themselves. A group crosses only routers that have a
    member, so the cores have one here, too; dv2 has BIER for that."""
    cores, edges = 3, 3
    core = DV2 + 'policy = ["accept deny prefix /app"]\n'
    links = [*RING[3], *((core, cores + core) for core in range(edges))]
    regions = f'[network]\nproducer_regions = ["{NETWORK}/{{name}}"]\n'
    with network(directory, ["byname"] * (cores + edges), links, with_keys=True, extra_config=regions, caches=False,
                 routing=[core] * cores + [DV2] * edges) as net:
        inner, outer = net.routers[:cores], net.routers[cores:]
        for router in net.routers:
            wait_until(lambda: knows(router, net.routers), f"routes at {router.name}", 30)
        async with contextlib.AsyncExitStack() as stack:
            apps = [await stack.enter_async_context(pyndn.current(router.unix)) for router in outer]
            for router in outer:
                stack.enter_context(client(router, str(binary()), "ping-server", "--announce", f"/app/{router.name}"))
            for router in outer:
                wait_until(lambda: all(f"/app/{other.name}" in routes(router) for other in outer), "prefixes at edges", 30)
            for router in inner:
                assert "/app/" not in routes(router) and "/app/" in router.cli("routing", "prefixes").stdout
            for router, app in zip(outer, apps):
                for other in outer:
                    if other is not router:
                        hint = f"{NETWORK}/{other.name}"
                        name = f"/app/{other.name}/ping/{outer.index(router)}"
                        fetched, _ = await pyndn.fetch(app, name, forwarding_hint=[hint])
                        assert fetched == name
            # Without the hint, a core knows no way.
            with pytest.raises((InterestNack, InterestTimeout)):
                await pyndn.fetch(apps[0], f"/app/{outer[1].name}/ping/9", lifetime=500)
        chats(net.routers)
