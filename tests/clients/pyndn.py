"""python-ndn clients: the current interface (`appv2`) and the older one (`NDNApp`)."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

from ndn import appv2
from ndn.app import NDNApp as OlderApp
from ndn.client_conf import default_face
from ndn.encoding import Component, FormalName, MetaInfo, Name, make_data
from ndn.security import DigestSha256Signer, KeychainDigest
from ndn.types import InterestTimeout

SEGMENT_BYTES = 7000


@contextlib.asynccontextmanager
async def _running(app) -> AsyncIterator:
    """Runs an app's main loop while the test runs."""
    started = asyncio.Event()

    async def after_start() -> None:
        started.set()

    loop = asyncio.create_task(app.main_loop(after_start()))
    waiter = asyncio.create_task(started.wait())
    await asyncio.wait({loop, waiter}, timeout=10, return_when=asyncio.FIRST_COMPLETED)
    waiter.cancel()
    if loop.done():
        await loop
        raise ConnectionError("python-ndn could not connect")
    try:
        yield app
    finally:
        app.shutdown()
        with contextlib.suppress(Exception, asyncio.CancelledError):
            await asyncio.wait_for(loop, 2)


def current(uplink: str):
    """An `appv2.NDNApp` on that uplink, which registers with v0.3 signed Interests."""
    return _running(appv2.NDNApp(face=default_face(uplink)))


def older(uplink: str):
    """An `NDNApp` of the older interface, which registers with v0.2 commands."""
    return _running(OlderApp(face=default_face(uplink), keychain=KeychainDigest()))


async def serve(app: appv2.NDNApp, prefix: str, content: str, *, suffix: str = "", freshness_ms: int | None = None,
                register: bool = True) -> list[FormalName]:
    """Answers each Interest under `prefix` with its name plus `suffix`. Returns the growing list of its names."""
    seen: list[FormalName] = []

    def on_interest(name, _param, reply, _context) -> None:
        seen.append(name)
        options = {} if freshness_ms is None else {"freshness_period": freshness_ms}
        data_name = name + Name.from_str(suffix) if suffix else name
        body = f"{content} {len(seen)}".encode()
        reply(make_data(data_name, MetaInfo(**options), body, signer=DigestSha256Signer()))

    app.attach_handler(prefix, on_interest)
    if register:
        assert await app.register(prefix), f"registration of {prefix} was refused"
    return seen


async def fetch(app: appv2.NDNApp, name, **options) -> tuple[str, bytes]:
    """Returns the name and content of the Data."""
    options = {"lifetime": 2000, **options}
    try:
        data_name, content, _context = await app.express(name, appv2.pass_all, **options)
    except KeyError as error:
        # python-ndn removes an Interest twice if its Data arrives just when its lifetime ends.
        raise InterestTimeout() from error
    return Name.to_str(data_name), bytes(content or b"")


async def serve_file(app: appv2.NDNApp, prefix: str, path: Path) -> None:
    """Serves a file's segments. Signs each one when it is requested."""
    content = memoryview(path.read_bytes())
    last = max(0, (len(content) - 1) // SEGMENT_BYTES)
    final = Component.from_segment(last)
    signer = DigestSha256Signer()

    def on_interest(name, _param, reply, _context) -> None:
        if Component.get_type(name[-1]) != Component.TYPE_SEGMENT:
            name = name + [Component.from_segment(0)]
        number = Component.to_number(name[-1])
        if number <= last:
            body = content[number * SEGMENT_BYTES:(number + 1) * SEGMENT_BYTES]
            meta = MetaInfo(freshness_period=10_000, final_block_id=final)
            reply(make_data(name, meta, body, signer=signer))

    app.attach_handler(prefix, on_interest)
    assert await app.register(prefix), f"registration of {prefix} was refused"


async def fetch_file(app: appv2.NDNApp, name: str, *, window: int = 16, attempts: int = 10) -> tuple[str, int]:
    """Fetches a segmented object, `window` segments at a time. Returns its SHA-256 and length."""
    base = Name.from_str(name)
    hasher = hashlib.sha256()

    async def segment(number: int):
        for _ in range(attempts):
            with contextlib.suppress(InterestTimeout):
                _, content, context = await app.express(
                    base + [Component.from_segment(number)], appv2.pass_all, lifetime=1000)
                return bytes(content or b""), context["meta_info"].final_block_id
        raise InterestTimeout()

    content, final = await segment(0)
    last = Component.to_number(final)
    hasher.update(content)
    length = len(content)
    pending: list[asyncio.Task] = []
    following = 1
    while following <= last or pending:
        while following <= last and len(pending) < window:
            pending.append(asyncio.create_task(segment(following)))
            following += 1
        content, _ = await pending.pop(0)
        hasher.update(content)
        length += len(content)
    return hasher.hexdigest(), length
