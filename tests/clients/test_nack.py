"""Nacks, link-layer fields and PIT tokens, from the clients' side."""

import asyncio
import time

import pytest
from ndn.types import InterestNack, InterestTimeout

import pyndn
from ndnts import Ndnts
from router import Router

NO_ROUTE = 150
TRANSPORTS = ["unix", "udp", "tcp", "ws"]


@pytest.mark.measures
@pytest.mark.parametrize("transport", ["unix", "udp", "tcp"])
async def test_python_ndn_learns_that_there_is_no_route(router: Router, transport: str):
    async with pyndn.current(router.uplink(transport)) as client:
        began = time.monotonic()
        with pytest.raises(InterestNack) as nack:
            await pyndn.fetch(client, "/no/such/route", lifetime=4000)
        assert nack.value.reason == NO_ROUTE
        assert time.monotonic() - began < 1


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_nack_carries_the_interest_and_its_token(router: Router, ndnts: Ndnts, transport: str):
    answers = await ndnts.call("exchange_raw", uplink=router.uplink(transport), names=["/none/1", "/none/2"])
    assert sorted((a["kind"], a["name"], a["reason"], a["token"]) for a in answers) == [
        ("nack", "/8=none/8=1", NO_ROUTE, 1000), ("nack", "/8=none/8=2", NO_ROUTE, 1001),
    ]


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_pit_token_is_echoed(router: Router, ndnts: Ndnts, transport: str):
    """The token comes back with Data from the producer, and with Data from the content store."""
    server = await ndnts.connect(router.unix)
    assert await server.produce("/token", "x")
    names = [f"/token/{i}" for i in range(20)]
    for _ in range(2):
        answers = await ndnts.call("exchange_raw", uplink=router.uplink(transport), names=names)
        assert {a["name"]: a["token"] for a in answers if a["kind"] == "data"} == {
            f"/8=token/8={i}": 1000 + i for i in range(20)
        }


async def test_producer_that_echoes_no_token_is_served(router: Router, ndnts: Ndnts):
    """The older python-ndn interface answers without link-layer headers."""
    async with pyndn.older(router.unix) as server:

        def on_interest(name, _param, _app_param):
            server.put_data(name, content=b"plain", freshness_period=1000)

        assert await server.register("/plain", on_interest)
        answers = await ndnts.call("exchange_raw", uplink=router.unix, names=["/plain/1"])
        assert [(a["kind"], a["token"]) for a in answers] == [("data", 1000)]


async def test_interest_comes_back_as_nack_when_the_producer_is_gone(router: Router):
    async with pyndn.current(router.unix) as client:
        async with pyndn.current(router.unix) as server:
            await pyndn.serve(server, "/leaves", "x")
            await pyndn.fetch(client, "/leaves/1")
        await asyncio.sleep(0.3)
        with pytest.raises(InterestNack) as nack:
            await pyndn.fetch(client, "/leaves/2", lifetime=4000)
        assert nack.value.reason == NO_ROUTE


@pytest.mark.measures
async def test_silent_producer_is_a_timeout(router: Router):
    async with pyndn.current(router.unix) as server, pyndn.current(router.unix) as client:
        server.attach_handler("/silent", lambda *_: None)
        assert await server.register("/silent")
        began = time.monotonic()
        with pytest.raises(InterestTimeout):
            await pyndn.fetch(client, "/silent/1", lifetime=400)
        assert 0.35 < time.monotonic() - began < 1.5


async def test_hop_limit_zero_goes_no_further(router: Router, ndnts: Ndnts):
    server = await ndnts.connect(router.unix)
    client = await ndnts.connect(router.unix, register=False)
    assert await server.produce("/hops", "x")
    assert "rejected" in await client.fetch("/hops/0", hop_limit=0, lifetime=300)
    assert (await client.fetch("/hops/2", hop_limit=2))["content"] == "x 1"
