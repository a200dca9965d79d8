"""The client of `byname gribi serve`, beside a router."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("grpc", reason="grpcio is missing")
from byname import gribi  # noqa: E402

from router import Router  # noqa: E402


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.fixture
def server(router: Router, byname_binary: Path) -> Iterator[str]:
    """The address of a server beside a router."""
    port = free_port()
    line = ["gribi", "serve", "--listen", f"127.0.0.1:{port}", "--transport", router.unix]
    with subprocess.Popen([byname_binary, *line]) as process:
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield f"127.0.0.1:{port}"
        process.terminate()


def routes(router: Router, program: Path) -> list[tuple[str, int]]:
    line = [program, "--transport", router.unix, "--json", "route", "list", "--origin", "gribi"]
    listed = json.loads(subprocess.run(line, check=True, capture_output=True).stdout)
    return sorted((route["prefix"], route["cost"]) for route in listed)


def test_a_controller_programs_a_router(server: str, router: Router, byname_binary: Path) -> None:
    with gribi.connect(server) as client:
        with client.modify(election=3) as session:
            assert session.is_primary
            session.add(gribi.next_hop(1, "udp4://127.0.0.1:1"))
            session.add(gribi.group(7, {1: 10}))
            for number in range(1_000):
                session.add(gribi.prefix(f"/many/{number}", 7))
            session.wait()
            assert len(routes(router, byname_binary)) == 1_000
            session.replace(gribi.group(7, {1: 5}))
            session.wait()
            assert all(cost == 5 for _, cost in routes(router, byname_binary))
            session.delete(gribi.group(7))
            bad = session.add(gribi.prefix("bad", 7))
            with pytest.raises(gribi.OperationFailed, match="1000 entries lead to group 7, and 1 more") as failed:
                session.wait()
            assert "begins with /" in failed.value.failures[bad]
        entries = list(client.get("next_hop_group"))
        assert [entry.next_hop_group.id for entry in entries] == [7]
        assert len(list(client.get())) == 1_002
        with client.modify(election=2) as late:
            assert (late.is_primary, late.highest) == (False, 3)
        client.flush(3)
        assert (routes(router, byname_binary), list(client.get())) == ([], [])
