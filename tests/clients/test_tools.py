"""byname's commands against unmodified clients, and the other way round."""

import asyncio
import contextlib
import hashlib
import json
import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import pyndn
from ndnts import Ndnts
from router import Router, binary


@contextlib.asynccontextmanager
async def running(router: Router, *args: str, content: bytes = b"") -> AsyncIterator[asyncio.subprocess.Process]:
    """Runs a byname server command in the background. `content` is its standard input."""
    process = await asyncio.create_subprocess_exec(
        str(binary()), *args, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
        env={**os.environ, "HOME": str(router.directory), "NDN_CLIENT_TRANSPORT": router.unix},
    )
    process.stdin.write(content)
    process.stdin.close()
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


async def registered(ndnts: Ndnts, router: Router, prefix: str) -> None:
    """Waits until `prefix`, in NDNts's spelling, is in the RIB."""
    client = await ndnts.connect(router.unix, register=False)
    for _ in range(100):
        if any(entry["name"] == prefix for entry in await client.dataset("rib/list")):
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"{prefix} was not registered within 5 s")


async def cli(router: Router, *args: str, **options) -> subprocess.CompletedProcess[str]:
    return await asyncio.to_thread(router.cli, *args, **options)


@pytest.fixture
def sample(tmp_path: Path) -> tuple[Path, str]:
    path = tmp_path / "sample.bin"
    content = os.urandom(3_000_000)
    path.write_bytes(content)
    return path, hashlib.sha256(content).hexdigest()


async def test_put_is_fetched_by_ndnts(router: Router, ndnts: Ndnts, sample):
    path, digest = sample
    async with running(router, "put", "/put/file", str(path)):
        await registered(ndnts, router, "/8=put/8=file")
        client = await ndnts.connect(router.unix, register=False)
        got = await client.call("fetch_file", name="/put/file", discover=True)
        assert (got["length"], got["sha256"]) == (path.stat().st_size, digest)


async def test_put_is_fetched_by_get(router: Router, ndnts: Ndnts, sample, tmp_path: Path):
    path, digest = sample
    async with running(router, "put", "/put/file", str(path)):
        await registered(ndnts, router, "/8=put/8=file")
        out = tmp_path / "out.bin"
        result = await cli(router, "get", "/put/file", "--output", str(out))
        assert hashlib.sha256(out.read_bytes()).hexdigest() == digest
        assert digest in result.stdout + result.stderr


async def test_get_from_ndnts(router: Router, ndnts: Ndnts, sample, tmp_path: Path):
    path, digest = sample
    server = await ndnts.connect(router.unix)
    assert (await server.call("serve_file", prefix="/file/v/54=%07", producer_prefix="/file/v", path=str(path)))["advertised"]
    out = tmp_path / "out.bin"
    result = await cli(router, "get", "/file/v", "--output", str(out))
    assert hashlib.sha256(out.read_bytes()).hexdigest() == digest
    assert digest in result.stdout + result.stderr


async def test_get_from_python_ndn(router: Router, sample, tmp_path: Path):
    path, digest = sample
    async with pyndn.current(router.unix) as server:
        await pyndn.serve_file(server, "/file/python", path)
        out = tmp_path / "out.bin"
        await cli(router, "get", "/file/python", "--output", str(out))
        assert hashlib.sha256(out.read_bytes()).hexdigest() == digest


async def test_ping(router: Router, ndnts: Ndnts):
    async with running(router, "ping-server", "/ping/here"):
        await registered(ndnts, router, "/8=ping/8=here/8=ping")
        result = await cli(router, "ping", "/ping/here", "--count", "3", "--interval", "100")
        assert result.stdout.count("/ping/here") >= 3


async def test_poke_then_python_ndn_reads(router: Router, ndnts: Ndnts):
    async with running(router, "poke", "/poked", content=b"hello") as poke:
        await registered(ndnts, router, "/8=poked")
        async with pyndn.current(router.unix) as client:
            assert (await pyndn.fetch(client, "/poked"))[1] == b"hello"
        assert await asyncio.wait_for(poke.wait(), 5) == 0, "it ends when its packet is taken"


async def test_peek_at_python_ndn(router: Router):
    async with pyndn.current(router.unix) as server:
        await pyndn.serve(server, "/peeked", "content")
        result = await cli(router, "peek", "--payload", "/peeked/1")
        assert "content 1" in result.stdout


async def test_peek_tells_of_a_nack(router: Router):
    result = await cli(router, "peek", "/nobody/here", check=False)
    assert result.returncode != 0
    assert "no route" in (result.stdout + result.stderr).lower()


async def test_management_commands(router: Router, ndnts: Ndnts):
    """NDNts's client sees the effects of byname's commands, and the other way round."""
    manager = await ndnts.connect(router.unix, register=False)
    status = json.loads((await cli(router, "status", "--json")).stdout)
    assert isinstance(status, dict) and status

    created = await manager.invoke("faces/create", {"uri": "udp4://127.0.0.1:9"})
    face = created["body"]["faceId"]
    assert any(row["face_id"] == face for row in json.loads((await cli(router, "face", "list", "--json")).stdout))
    assert "udp4://127.0.0.1:9" in (await cli(router, "face", "show", str(face))).stdout

    await cli(router, "route", "add", "/by/cli", str(face), "--cost", "3")
    [entry] = [entry for entry in await manager.dataset("rib/list") if entry["name"] == "/8=by/8=cli"]
    assert [(route["faceId"], route["cost"]) for route in entry["route"]] == [(face, 3)]
    assert "/by/cli" in (await cli(router, "route", "list")).stdout
    await cli(router, "route", "remove", "/by/cli", str(face))
    assert all(entry["name"] != "/8=by/8=cli" for entry in await manager.dataset("rib/list"))

    await cli(router, "strategy", "set", "/by/cli", "/localhost/nfd/strategy/multicast")
    assert any(entry["name"] == "/8=by/8=cli" for entry in await manager.dataset("strategy-choice/list"))
    await cli(router, "strategy", "unset", "/by/cli")
    assert all(entry["name"] != "/8=by/8=cli" for entry in await manager.dataset("strategy-choice/list"))

    await cli(router, "cs", "config", "--capacity", "4321")
    assert (await manager.dataset("cs/info"))[0]["capacity"] == 4321
    assert "4321" in (await cli(router, "cs", "info")).stdout.replace(",", "")
    await cli(router, "cs", "erase", "/by")

    await cli(router, "face", "destroy", str(face))
    assert all(item["faceId"] != face for item in await manager.dataset("faces/list"))
