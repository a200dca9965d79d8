"""A seed for random keys, and routers for the client's tests."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

# Routers are started as for all other clients.
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tests" / "clients"))

from router import Router, binary  # noqa: E402


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seed", type=int, default=1, help="seed of random keys")
    parser.addoption("--retry", action="store_true", help="give every test that fails a second attempt")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if config.getoption("--retry"):
            item.add_marker(pytest.mark.flaky(retries=1, delay=2))


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    return request.config.getoption("--seed")


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory whose path is short enough for Unix sockets."""
    path = Path(tempfile.mkdtemp(prefix="byname-"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def byname_binary() -> Path:
    """The router's program. Without one, its tests are skipped."""
    try:
        return binary()
    except FileNotFoundError as missing:
        pytest.skip(str(missing))


@pytest.fixture
def router(directory: Path, byname_binary: Path, request: pytest.FixtureRequest) -> Iterator[Router]:
    """A running router; on failure, its log is part of the report."""
    running = Router(directory)
    try:
        running.start()
        yield running
    finally:
        running.stop()
        request.node.add_report_section("call", "router log", running.log()[-20_000:])
