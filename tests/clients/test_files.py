"""Segmented files through one router and through three; their SHA-256 must match."""

import hashlib
import os
from pathlib import Path

import pytest

import pyndn
from ndnts import Ndnts
from router import Router
from topology import loopback_line, namespace_line, route_along

MEGA = 1_000_000
LARGE = 100 * MEGA
SMALL = 2 * MEGA


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[int, tuple[Path, str]]:
    """Files of random bytes and their SHA-256, keyed by length."""
    made = {}
    for length in (SMALL, LARGE):
        path = tmp_path_factory.mktemp("files") / f"{length}.bin"
        content = os.urandom(length)
        path.write_bytes(content)
        made[length] = path, hashlib.sha256(content).hexdigest()
    return made


async def ndnts_transfer(ndnts: Ndnts, served_at: str, fetched_at: str, path: Path, digest: str) -> None:
    server = await ndnts.connect(served_at, local=True)
    # Consumer and producer run in two processes, so that they do not share a thread.
    async with Ndnts() as other:
        client = await other.connect(fetched_at, register=False)
        served = await server.call("serve_file", prefix="/file/ndnts/54=%01", producer_prefix="/file/ndnts", path=str(path))
        assert served["advertised"]
        got = await client.call("fetch_file", name="/file/ndnts/54=%01")
    assert (got["length"], got["sha256"]) == (path.stat().st_size, digest)


async def python_transfer(served_at: str, fetched_at: str, path: Path, digest: str) -> None:
    async with pyndn.current(served_at) as server, pyndn.current(fetched_at) as client:
        await pyndn.serve_file(server, "/file/python", path)
        assert await pyndn.fetch_file(client, "/file/python") == (digest, path.stat().st_size)


@pytest.mark.parametrize("fetched_at", ["unix", "udp", "tcp", "ws"])
@pytest.mark.parametrize("served_at", ["unix", "tcp", "ws"])
async def test_ndnts_file_over_each_transport(router: Router, ndnts: Ndnts, files, served_at: str, fetched_at: str):
    await ndnts_transfer(ndnts, router.uplink(served_at), router.uplink(fetched_at), *files[SMALL])


@pytest.mark.parametrize("fetched_at", ["unix", "udp", "tcp"])
async def test_python_ndn_file_over_each_transport(router: Router, files, fetched_at: str):
    await python_transfer(router.unix, router.uplink(fetched_at), *files[SMALL])


async def test_ndnts_finds_the_version_of_a_file(router: Router, ndnts: Ndnts, files):
    path, digest = files[SMALL]
    server = await ndnts.connect(router.unix)
    client = await ndnts.connect(router.unix, register=False)
    assert (await server.call("serve_file", prefix="/file/v/54=%07", producer_prefix="/file/v", path=str(path)))["advertised"]
    got = await client.call("fetch_file", name="/file/v", discover=True)
    assert got["sha256"] == digest
    assert got["name"] == "/8=file/8=v/54=%07"


async def test_ndnts_100_mb_through_one_router(router: Router, ndnts: Ndnts, files):
    await ndnts_transfer(ndnts, router.unix, router.unix, *files[LARGE])


async def test_python_ndn_100_mb_through_one_router(router: Router, files):
    await python_transfer(router.unix, router.unix, *files[LARGE])


@pytest.mark.parametrize("link", ["udp4", "tcp4"])
async def test_ndnts_100_mb_through_three_routers_on_loopback(directory: Path, ndnts: Ndnts, files, link: str):
    with loopback_line(directory, 3) as routers:
        await route_along(ndnts, routers, "/file", link)
        await ndnts_transfer(ndnts, routers[2].unix, routers[0].unix, *files[LARGE])


@pytest.mark.netns
@pytest.mark.parametrize("link", ["udp4", "tcp4"])
async def test_ndnts_100_mb_through_three_routers_in_namespaces(directory: Path, ndnts: Ndnts, files, link: str):
    with namespace_line(directory, 3) as routers:
        await route_along(ndnts, routers, "/file", link, mtu=1400 if link == "udp4" else None)
        await ndnts_transfer(ndnts, routers[2].unix, routers[0].unix, *files[LARGE])


@pytest.mark.netns
async def test_python_ndn_100_mb_through_three_routers_in_namespaces(directory: Path, ndnts: Ndnts, files):
    with namespace_line(directory, 3) as routers:
        await route_along(ndnts, routers, "/file")
        await python_transfer(routers[2].unix, routers[0].unix, *files[LARGE])
