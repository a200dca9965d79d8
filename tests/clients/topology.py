"""Routers in a line, joined over loopback or by veth pairs between namespaces."""

from __future__ import annotations

import contextlib
import functools
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from ndnts import Ndnts, NdntsClient
from router import Router


def _ip(*args: str) -> None:
    subprocess.run(["ip", *args], check=True, capture_output=True)


@functools.cache
def namespaces_allowed() -> bool:
    """Whether this user may create network namespaces and veth pairs."""
    name = f"byname-try-{os.getpid()}"
    try:
        _ip("netns", "add", name)
    except (OSError, subprocess.CalledProcessError):
        return False
    try:
        _ip("-n", name, "link", "add", "try0", "type", "veth", "peer", "name", "try1")
        return True
    except subprocess.CalledProcessError:
        return False
    finally:
        _ip("netns", "del", name)


@contextlib.contextmanager
def loopback_line(directory: Path, count: int, extra_config: str = "") -> Iterator[list[Router]]:
    """`count` routers on this host with different ports."""
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(Router(directory, name=f"router{i}", extra_config=extra_config))
            for i in range(count)
        ]


@contextlib.contextmanager
def namespace_line(directory: Path, count: int, extra_config: str = "") -> Iterator[list[Router]]:
    """`count` routers, each in its own namespace. Routers i and i+1 share a veth pair, 10.67.i.0/30.

    Clients stay outside the namespaces, because a Unix socket works across them.
    """
    spaces = [f"byname-{os.getpid()}-{i}" for i in range(count)]
    with contextlib.ExitStack() as stack:
        for space in spaces:
            _ip("netns", "add", space)
            stack.callback(_ip, "netns", "del", space)
            _ip("-n", space, "link", "set", "lo", "up")
        for i, (left, right) in enumerate(zip(spaces, spaces[1:])):
            _ip("-n", left, "link", "add", "right", "type", "veth", "peer", "name", "left", "netns", right)
            for space, device, host in ((left, "right", 1), (right, "left", 2)):
                _ip("-n", space, "addr", "add", f"10.67.{i}.{host}/30", "dev", device)
                _ip("-n", space, "link", "set", device, "up")
        yield [
            stack.enter_context(Router(
                directory, name=f"router{i}", extra_config=extra_config, netns=space,
                host="10.67.0.1" if i == 0 else f"10.67.{i - 1}.2",
            ))
            for i, space in enumerate(spaces)
        ]


async def manager(ndnts: Ndnts, router: Router) -> NdntsClient:
    """A management client on the router's Unix socket."""
    return await ndnts.connect(router.unix, register=False)


async def route_along(ndnts: Ndnts, routers: list[Router], prefix: str, scheme: str = "udp4",
                      mtu: int | None = None) -> list[int]:
    """Creates a face from each router to the next, with a route for `prefix`. Returns the face ids."""
    faces = []
    for near, far in zip(routers, routers[1:]):
        client = await manager(ndnts, near)
        params = {"uri": f"{scheme}://{far.host}:{far.port}", "facePersistency": 2}
        if mtu is not None:
            params["mtu"] = mtu
        created = await client.invoke("faces/create", params)
        assert created["code"] in (200, 409), created
        face = created["body"]["faceId"]
        added = await client.invoke("rib/register", {"name": prefix, "faceId": face, "origin": 255, "cost": 10})
        assert added["code"] == 200, added
        faces.append(face)
        await client.close()
    return faces
