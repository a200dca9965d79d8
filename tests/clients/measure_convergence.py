"""How long a cut costs: `measure_convergence.py [--kinds byname,ndnd] [--sizes 3,10,50] [--rounds N] [--out FILE]`.

For each kind and size, routers stand in a triangle or a grid, each in a network namespace. A client at the first pings a
producer at the second, 100 times a second, over the link between them. Packets then get lost on that link, and no end
is told. N (10) times, the link is cut for some seconds, and heals. Prints one line of JSON for each kind and size: the
pings lost in each cut, and their median, p99 and most, in pings and in ms.

Both kinds have the same intervals where they have them (advertisements each second, 4 s until a silent neighbour is
dead). byname's routers have keys; ndnd's believe everybody. $NDND_BIN names ndnd. Needs root, and a quiet machine.
"""

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from networks import AnyRouter, answers, client, environment, network, wait_until
from router import binary

INTERVAL_MS = 10
BEFORE_S = 1.0


def lost_pings(near: AnyRouter, cut_s: float, cut) -> int:
    """Pings for `cut_s` seconds after a cut. Returns how many were not answered."""
    count = int((BEFORE_S + cut_s) * 1000 / INTERVAL_MS)
    ping = subprocess.Popen(
        [str(binary()), "ping", "/app/far", "-c", str(count), "-i", str(INTERVAL_MS), "--timeout", "500", "--json"],
        env=environment(near), stdout=subprocess.PIPE,
    )
    time.sleep(BEFORE_S)
    cut()
    told = json.loads(ping.communicate(timeout=120)[0])
    return told["transmitted"] - told["received"]


def percentile(values: list[int], share: float) -> int:
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def links(size: int) -> list[tuple[int, int]]:
    """The links of a triangle, or of a grid. The first one is between the first two routers."""
    if size == 3:
        return [(0, 1), (1, 2), (2, 0)]
    width = math.ceil(math.sqrt(size))
    right = [(i, i + 1) for i in range(size - 1) if (i + 1) % width]
    return right + [(i, i + width) for i in range(size - width)]


def measure(kind: str, size: int, rounds: int, cut_s: float) -> dict:
    with tempfile.TemporaryDirectory(prefix="byname-") as folder, \
            network(Path(folder), [kind] * size, links(size), with_keys=kind == "byname") as net:
        near, far = net.routers[:2]
        with client(far, str(binary()), "ping-server", "--announce", "/app/far"):
            wait_until(lambda: answers(near, "/app/far"), "the first answer", 120)
            time.sleep(5)
            lost = []
            for _ in range(rounds):
                lost.append(lost_pings(near, cut_s, lambda: net.set_link(0, 1, up=False)))
                net.set_link(0, 1, up=True)
                wait_until(lambda: answers(near, "/app/far"), "an answer after the cut", 120)
                # Until the direct link is used again. Links that flap would be damped.
                time.sleep(65 if kind == "byname" and len(lost) % 3 == 0 else 5)
    figures = {"p50": percentile(lost, 0.5), "p99": percentile(lost, 0.99), "max": max(lost)}
    ms = {f"{name}_ms": value * INTERVAL_MS for name, value in figures.items()}
    return {"kind": kind, "routers": size, "cuts": rounds, "lost": lost, **figures, **ms}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", default="byname,ndnd")
    parser.add_argument("--sizes", default="3,10,50")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--cut", type=float, default=15.0, help="seconds that a link stays cut")
    parser.add_argument("--out", type=argparse.FileType("a"), default=sys.stdout)
    options = parser.parse_args()
    for size in map(int, options.sizes.split(",")):
        for kind in options.kinds.split(","):
            print(json.dumps(measure(kind, size, options.rounds, options.cut)), file=options.out, flush=True)


if __name__ == "__main__":
    main()
