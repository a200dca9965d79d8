"""Fixtures of all tests: a router, NDNts, a directory with a short path."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

sys.path.insert(0, str(Path(__file__).resolve().parent))

import router as router_module  # noqa: E402
from ndnts import Ndnts  # noqa: E402
from router import Router  # noqa: E402
from topology import namespaces_allowed  # noqa: E402


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="also run tests that take a minute or more")
    parser.addoption("--retry", action="store_true", help="give every test that fails a second attempt")
    parser.addoption("--threads", type=int, default=0, help="number of packet threads of each router (default 1)")


def pytest_configure(config: pytest.Config) -> None:
    router_module.threads_of_all = config.getoption("--threads") or 1


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs tests with 1 and with 2 packet threads, unless they are long or the command line gives a number."""
    marked = {marker.name for marker in metafunc.definition.iter_markers()}
    if "long" not in marked and not metafunc.config.getoption("--threads"):
        metafunc.parametrize("threads", [1, 2], ids="threads{}".format, indirect=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skips tests that this run or this machine does not allow. Gives second attempts where they are due."""
    for item in items:
        if "measures" in item.keywords or config.getoption("--retry"):
            item.add_marker(pytest.mark.flaky(retries=1, delay=2))
        if "long" in item.keywords and not config.getoption("--long"):
            item.add_marker(pytest.mark.skip(reason="takes a minute or more: --long"))
        if "netns" in item.keywords and not namespaces_allowed():
            item.add_marker(pytest.mark.skip(reason="this user may not create network namespaces"))


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory whose path is short enough for Unix sockets (108 bytes)."""
    path = Path(tempfile.mkdtemp(prefix="byname-"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(autouse=True)
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    """Number of packet threads of each router that the test creates without a number."""
    of_all = router_module.threads_of_all
    router_module.threads_of_all = getattr(request, "param", of_all)
    yield router_module.threads_of_all
    router_module.threads_of_all = of_all


@pytest.fixture
def router(directory: Path, threads: int, request: pytest.FixtureRequest) -> Iterator[Router]:
    """A running router; on failure, its log is part of the report."""
    running = Router(directory, threads=threads)
    try:
        running.start()
        yield running
    finally:
        status = running.stop()
        request.node.add_report_section("call", "router log", running.log()[-20_000:])
    assert status == 0, f"the router ended with {status} on SIGTERM"


@pytest_asyncio.fixture
async def ndnts() -> AsyncIterator[Ndnts]:
    async with Ndnts() as agent:
        yield agent
