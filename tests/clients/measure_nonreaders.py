"""What peers that do not read cost the others: `measure_nonreaders.py [PEERS [THREADS...]]`.

For each transport and number of threads, PEERS (2,000) connections ask 300
times for cached Data of 8 kB and never read. Prints one JSON line each: Data a
second that one TCP and one Unix client get before and during that, the router's
processor time for each, its memory, and how many peers it has closed. Wants a
quiet machine. $BYNAME_BIN is the router; docs/security.md cites the results.
"""

import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from router import Router
from test_hostile import HERE, cache_bulk, cpu_s, resident, served

NAMES, ASKS, SECONDS = 50, 300, 2.0


def rate_of_reader(router: Router, transport: str) -> float:
    """Data a second for a client that tries again until it is connected."""
    deadline = time.monotonic() + 5
    while True:
        try:
            return served(router, transport, SECONDS, "/bulk", NAMES)
        except ConnectionError:
            # All places of this address are taken, and no peer has been stuck for a second yet.
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def rates(router: Router) -> dict[str, float]:
    """Data a second, and microseconds of the router for each."""
    result = {}
    for transport in ("tcp", "unix"):
        spent = cpu_s(router)
        rate = rate_of_reader(router, transport)
        result[f"{transport}_per_second"] = round(rate)
        result[f"{transport}_router_us"] = round((cpu_s(router) - spent) / (rate * SECONDS) * 1e6, 1)
    return result


async def measure(transport: str, threads: int, peers: int) -> dict:
    content = os.urandom(8000)
    with tempfile.TemporaryDirectory() as folder, Router(Path(folder), threads=threads) as router:
        await cache_bulk(router, NAMES, content)
        rates(router)
        before, memory = rates(router), resident(router)
        attack = await asyncio.create_subprocess_exec(
            sys.executable, str(HERE / "nonreaders.py"), router.uplink(transport).rstrip("/"), "/bulk", str(NAMES),
            str(peers), str(ASKS), "20", stdout=subprocess.PIPE,
        )
        await attack.stdout.readline()
        during, most = rates(router), resident(router)
        begin = time.monotonic()
        status = router.cli("status").returncode
        status_s = time.monotonic() - begin
        closed = int(await attack.stdout.readline())
        await attack.wait()
        await asyncio.sleep(1)
        return {
            "transport": transport, "threads": threads, "peers": peers, "asks": ASKS, "data_bytes": len(content),
            "before": before, "during": during,
            "ratio": {key: round(during[key] / before[key], 3) for key in before},
            "memory_mib": [round(value / (1 << 20), 1) for value in (memory, most, resident(router))],
            "status_exit": status, "status_s": round(status_s, 3), "closed": closed,
        }


def main() -> None:
    peers = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    for threads in [int(text) for text in sys.argv[2:]] or [1, 2]:
        for transport in ("tcp", "unix", "ws"):
            print(json.dumps(asyncio.run(measure(transport, threads, peers))), flush=True)


if __name__ == "__main__":
    main()
