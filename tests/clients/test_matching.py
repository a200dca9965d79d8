"""CanBePrefix, MustBeFresh and the content store, from the clients' side."""

import asyncio
import hashlib

import pytest
from ndn.encoding import Component, MetaInfo, Name, make_data
from ndn.security import DigestSha256Signer
from ndn.types import InterestNack, InterestTimeout

import pyndn
from ndnts import Ndnts
from router import Router


async def test_exact_interest_takes_no_longer_name(router: Router, ndnts: Ndnts):
    server = await ndnts.connect(router.unix)
    client = await ndnts.connect(router.unix, register=False)
    assert await server.produce("/longer", "x", suffix=["more"])
    assert "rejected" in await client.fetch("/longer/a", lifetime=300)
    answer = await client.fetch("/longer/b", can_be_prefix=True)
    assert answer["name"] == "/8=longer/8=b/8=more"


async def test_cached_data_answers_a_prefix(router: Router):
    async with pyndn.current(router.unix) as server, pyndn.current(router.unix) as client:
        seen = await pyndn.serve(server, "/cached", "x", freshness_ms=10_000)
        await pyndn.fetch(client, "/cached/a/b/c")
        name, content = await pyndn.fetch(client, "/cached/a", can_be_prefix=True)
        assert (name, content) == ("/cached/a/b/c", b"x 1")
        assert len(seen) == 1
        with pytest.raises((InterestNack, InterestTimeout)):
            await server.unregister("/cached")
            await pyndn.fetch(client, "/cached/a", lifetime=300)


async def test_fresh_data_is_served_from_the_cache_until_it_is_stale(router: Router):
    async with pyndn.current(router.unix) as server, pyndn.current(router.unix) as client:
        seen = await pyndn.serve(server, "/fresh", "x", freshness_ms=500)
        assert (await pyndn.fetch(client, "/fresh/1", must_be_fresh=True))[1] == b"x 1"
        assert (await pyndn.fetch(client, "/fresh/1", must_be_fresh=True))[1] == b"x 1"
        assert len(seen) == 1
        await asyncio.sleep(0.6)
        assert (await pyndn.fetch(client, "/fresh/1"))[1] == b"x 1"
        assert (await pyndn.fetch(client, "/fresh/1", must_be_fresh=True))[1] == b"x 2"


async def test_data_without_freshness_is_never_fresh(router: Router, ndnts: Ndnts):
    server = await ndnts.connect(router.unix)
    client = await ndnts.connect(router.unix, register=False)
    assert await server.produce("/stale", "x")
    assert (await client.fetch("/stale/1"))["content"] == "x 1"
    assert (await client.fetch("/stale/1", must_be_fresh=True))["content"] == "x 2"
    assert (await client.fetch("/stale/1"))["content"] in ("x 1", "x 2")


async def test_implicit_digest_selects_one_data(router: Router):
    packet = make_data("/digest/1", MetaInfo(), b"x", signer=DigestSha256Signer())
    right, wrong = (Component.from_bytes(digest, Component.TYPE_IMPLICIT_SHA256)
                    for digest in (hashlib.sha256(packet).digest(), bytes(32)))
    async with pyndn.current(router.unix) as server, pyndn.current(router.unix) as client:
        server.attach_handler("/digest", lambda _name, _param, reply, _context: reply(packet))
        assert await server.register("/digest")
        base = Name.from_str("/digest/1")
        for _ in range(2):
            assert await pyndn.fetch(client, base + [right]) == ("/digest/1", b"x")
            with pytest.raises((InterestNack, InterestTimeout)):
                await pyndn.fetch(client, base + [wrong], lifetime=300)


async def test_longest_prefix_wins(router: Router, ndnts: Ndnts):
    # Longer prefixes inherit the shorter route (flag child-inherit, the default),
    # unless one captures, as NDNts's registrations do.
    long = await ndnts.connect(router.unix)
    assert await long.produce("/a/b/c", "long")
    async with pyndn.current(router.unix) as short, pyndn.current(router.unix) as client:
        await pyndn.serve(short, "/a", "short")
        assert (await pyndn.fetch(client, "/a/b/random"))[1] == b"short 1"
        assert (await pyndn.fetch(client, "/a/b/c/d"))[1] == b"long 1"
        assert (await pyndn.fetch(client, "/a/1"))[1] == b"short 2"
