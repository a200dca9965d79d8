"""NDNts clients, driven through `ndnts/agent.mjs`."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

HERE = Path(__file__).resolve().parent


class NdntsError(AssertionError):
    """NDNts threw an error, which is the message."""


class Ndnts:
    """One Node process that holds NDNts clients."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._pending: dict[int, asyncio.Future] = {}
        self._last_id = 0

    async def __aenter__(self) -> "Ndnts":
        self._process = await asyncio.create_subprocess_exec(
            "node", "--no-warnings", str(HERE / "ndnts" / "agent.mjs"),
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=64 << 20,
            env={**os.environ, "NODE_OPTIONS": ""},
        )
        self._reader = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), 5)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        await self._reader

    async def _read(self) -> None:
        async for line in self._process.stdout:
            message = json.loads(line)
            future = self._pending.pop(message["id"])
            if future.done():
                continue
            if "error" in message:
                future.set_exception(NdntsError(message["error"]))
            else:
                future.set_result(message["ok"])
        for future in self._pending.values():
            if not future.done():
                future.set_exception(NdntsError("the NDNts process ended"))

    async def call(self, op: str, **args):
        """Runs one operation of the agent; ndnts/agent.mjs lists them."""
        self._last_id += 1
        future = asyncio.get_running_loop().create_future()
        self._pending[self._last_id] = future
        self._process.stdin.write(json.dumps({"id": self._last_id, "op": op, **args}).encode() + b"\n")
        await self._process.stdin.drain()
        return await future

    async def connect(self, uplink: str, **options) -> "NdntsClient":
        return NdntsClient(self, await self.call("connect", uplink=uplink, **options))


class NdntsClient:
    """One NDNts logical forwarder with one uplink."""

    def __init__(self, agent: Ndnts, connected: dict) -> None:
        self._agent = agent
        self.id = connected["client"]
        self.local = connected["local"]

    async def call(self, op: str, **args):
        return await self._agent.call(op, client=self.id, **args)

    async def close(self) -> None:
        await self.call("close")

    async def produce(self, prefix: str, content: str = "", **options) -> bool | None:
        """Serves `prefix`. Returns whether the router accepted the registration."""
        return (await self.call("produce", prefix=prefix, content=content, **options))["advertised"]

    async def fetch(self, name: str, **options) -> dict:
        return await self.call("fetch", name=name, **options)

    async def invoke(self, command: str, params: dict, **options) -> dict:
        return await self.call("invoke", command=command, params=params, **options)

    async def dataset(self, dataset: str, **options) -> list[dict]:
        return await self.call("dataset", dataset=dataset, **options)
