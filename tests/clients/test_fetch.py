"""Registers a prefix, serves and fetches: each client over each of its transports."""

import asyncio
import socket
from pathlib import Path

import pytest
from ndn.types import InterestNack, InterestTimeout

import pyndn
from ndnts import Ndnts
from router import Router

NDNTS_TRANSPORTS = ["unix", "udp", "tcp", "ws"]
PYTHON_TRANSPORTS = ["unix", "udp", "tcp"]

# Loopback UDP is not local by default. These clients register under /localhost
# over it, so the configuration makes it local.
LOCAL_UDP = "loopback_is_local = true"


@pytest.mark.parametrize("consumer", NDNTS_TRANSPORTS)
@pytest.mark.parametrize("producer", ["unix", "tcp", "ws"])
async def test_ndnts_serves_ndnts(router: Router, ndnts: Ndnts, producer: str, consumer: str):
    server = await ndnts.connect(router.uplink(producer), local=True)
    client = await ndnts.connect(router.uplink(consumer), register=False)
    assert await server.produce("/ndnts/app", "hello")
    answer = await client.fetch("/ndnts/app/1")
    assert answer["name"] == "/8=ndnts/8=app/8=1"
    assert answer["content"] == "hello 1"


@pytest.mark.parametrize("consumer", PYTHON_TRANSPORTS)
@pytest.mark.parametrize("producer", ["unix", "tcp"])
async def test_python_ndn_serves_python_ndn(router: Router, producer: str, consumer: str):
    async with pyndn.current(router.uplink(producer)) as server, pyndn.current(router.uplink(consumer)) as client:
        await pyndn.serve(server, "/python/app", "hello")
        assert await pyndn.fetch(client, "/python/app/1") == ("/python/app/1", b"hello 1")


@pytest.mark.parametrize("producer", ["unix", "tcp"])
async def test_older_python_ndn_registers_with_the_older_command_form(router: Router, producer: str):
    async with pyndn.older(router.uplink(producer)) as server, pyndn.current(router.unix) as client:

        def on_interest(name, _param, _app_param):
            server.put_data(name, content=b"older", freshness_period=1000)

        assert await server.register("/python/older", on_interest)
        assert await pyndn.fetch(client, "/python/older/1") == ("/python/older/1", b"older")
        assert await server.unregister("/python/older")


@pytest.mark.parametrize("transport", PYTHON_TRANSPORTS)
async def test_python_ndn_serves_ndnts_and_back(router: Router, ndnts: Ndnts, transport: str):
    peer = await ndnts.connect(router.unix)
    assert await peer.produce("/ndnts/app", "from NDNts")
    async with pyndn.current(router.unix) as server, pyndn.current(router.uplink(transport)) as client:
        await pyndn.serve(server, "/python/app", "from python-ndn")
        assert (await peer.fetch("/python/app/x"))["content"] == "from python-ndn 1"
        assert await pyndn.fetch(client, "/ndnts/app/x") == ("/ndnts/app/x", b"from NDNts 1")


@pytest.mark.skipif(not socket.has_ipv6 or not Path("/proc/net/if_inet6").exists(), reason="no IPv6 here")
@pytest.mark.parametrize("transport", ["udp", "tcp", "ws"])
async def test_ipv6(router: Router, ndnts: Ndnts, transport: str):
    server = await ndnts.connect(router.unix)
    assert await server.produce("/six", "hello")
    client = await ndnts.connect(router.uplink(transport).replace("127.0.0.1", "[::1]"), register=False)
    assert (await client.fetch("/six/1"))["content"] == "hello 1"


async def test_many_interests_at_once(router: Router):
    async with pyndn.current(router.unix) as server, pyndn.current(router.unix) as client:
        await pyndn.serve(server, "/many", "n")
        answers = await asyncio.gather(*(pyndn.fetch(client, f"/many/{i}") for i in range(500)))
        assert {name for name, _ in answers} == {f"/many/{i}" for i in range(500)}


async def test_interests_for_one_name_are_aggregated(router: Router, ndnts: Ndnts):
    server = await ndnts.connect(router.unix)
    assert await server.produce("/slow", "once", delay_ms=300)
    clients = [await ndnts.connect(router.unix, register=False) for _ in range(20)]
    answers = await asyncio.gather(*(client.fetch("/slow/same") for client in clients))
    assert [answer["content"] for answer in answers] == ["once 1"] * 20
    # As in NFD, one may pass as a retransmission after 10 ms, the next one after 20 ms more, and so on, doubling.
    assert (await server.call("stop", prefix="/slow"))["served"] <= 6


async def test_unregistered_prefix_is_no_longer_served(router: Router):
    async with pyndn.current(router.unix) as server, pyndn.current(router.unix) as client:
        await pyndn.serve(server, "/gone", "here")
        await pyndn.fetch(client, "/gone/1")
        assert await server.unregister("/gone")
        with pytest.raises((InterestNack, InterestTimeout)):
            await pyndn.fetch(client, "/gone/2", lifetime=500)


async def test_routes_die_with_their_face(router: Router, ndnts: Ndnts):
    server = await ndnts.connect(router.unix)
    assert await server.produce("/short/lived", "alive")
    manager = await ndnts.connect(router.unix, register=False)
    assert any(entry["name"] == "/8=short/8=lived" for entry in await manager.dataset("rib/list"))
    await server.close()
    for _ in range(50):
        await asyncio.sleep(0.05)
        if not any(entry["name"] == "/8=short/8=lived" for entry in await manager.dataset("rib/list")):
            return
    raise AssertionError("the route outlived its face by 2.5 s")


class TestLoopbackUdpAsLocal:
    """Registration over UDP, if the configuration makes loopback UDP local."""

    @pytest.fixture
    def router(self, directory):
        with Router(directory, udp_options=LOCAL_UDP) as running:
            yield running

    async def test_ndnts_registers(self, router: Router, ndnts: Ndnts):
        server = await ndnts.connect(router.udp, local=True)
        client = await ndnts.connect(router.udp, register=False)
        assert await server.produce("/ndnts/udp", "hello")
        assert (await client.fetch("/ndnts/udp/1"))["content"] == "hello 1"

    async def test_python_ndn_registers(self, router: Router):
        async with pyndn.current(router.udp) as server, pyndn.current(router.udp) as client:
            await pyndn.serve(server, "/python/udp", "hello")
            assert await pyndn.fetch(client, "/python/udp/1") == ("/python/udp/1", b"hello 1")
