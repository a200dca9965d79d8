"""How long a cut costs.

`measure_convergence.py [--kinds byname,ndnd,nlsr] [--sizes 3,10,50] [--rounds N] [--pause] [--out FILE]`

For each size, networks of each kind are made in turn, until each kind had N (10) cuts. Routers stand in a triangle or a
grid, each in a network namespace. A client at the first pings a producer at the second, 100 times a second, over the
link between them. At some moment packets get lost on that link, and no end is told. It heals when 200 pings in a row
were answered. A network has at most three cuts, because byname damps links that flap. Prints one line of JSON for each
kind and size: the pings lost in each cut, and their median, p99 and most, in pings and in ms.

With `--pause`, byname's routers other than the first two stand still now and then, one at a time, for 250 to 450 ms:
as on a machine that is too busy.

byname and ndnd have the same intervals where they have them (advertisements each second, 4 s until a silent neighbour is
dead). NLSR has the shortest that it takes: hellos each 30 s, three tries of 1 s, and 5 s until it tells of a link. Its
forwarder is byname. byname's routers have keys; ndnd's and NLSR's believe everybody. $NDND_BIN names ndnd, and $NLSR_BIN
nlsr; a kind whose program is not there is left out, with a word. Needs root, and a quiet machine.
"""

import argparse
import contextlib
import json
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from networks import (
    ADVERTISE_MS, DEAD_MS, NDND, NLSR, NLSR_BUILD_S, NLSR_HELLO_S, AnyRouter, BynameRouter, answers, client, environment,
    network, wait_until,
)
from router import binary

INTERVAL_MS = 10
TIMEOUT_MS = 500
BEFORE_S = 1.0
# Answers in a row that end a cut.
SETTLED = 200
# Cuts of one link before byname would damp it.
CUTS_MAX = 3


def lost_pings(near: AnyRouter, patience_s: float, cut) -> int:
    """Pings until a cut is overcome. Returns how many of those sent after it were not answered."""
    ping = subprocess.Popen(
        [str(binary()), "ping", "/app/far", "-i", str(INTERVAL_MS), "--timeout", str(TIMEOUT_MS)],
        env=environment(near), stdout=subprocess.PIPE, text=True,
    )
    # The cut falls on any moment between two hellos.
    cut_at = time.monotonic() + BEFORE_S + random.random()

    def cut_then() -> None:
        time.sleep(max(0.0, cut_at - time.monotonic()))
        cut()

    with ThreadPoolExecutor(1) as pool:
        cutting = pool.submit(cut_then)
        lost, answered = 0, 0
        # Lines are read as they come. A ping without an answer says so only when its time is over.
        since = {"content": cut_at, "nack": cut_at, "timeout": cut_at + TIMEOUT_MS / 1000}
        for line in ping.stdout:
            now = time.monotonic()
            assert now < cut_at + patience_s, f"{near.name}: no way around after {patience_s} s, {lost} pings lost"
            kind = next((kind for kind in since if line.startswith(kind)), None)
            if kind is None or now < since[kind]:
                continue
            lost, answered = (lost, answered + 1) if kind == "content" else (lost + 1, 0)
            # Without a loss, go on longer: the first to be lost may not have said so yet.
            if answered >= SETTLED * (1 if lost else 5):
                break
        cutting.result()
    ping.send_signal(signal.SIGINT)
    ping.communicate(timeout=10)
    return lost


def percentile(values: list[int], share: float) -> int:
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def links(size: int) -> list[tuple[int, int]]:
    """The links of a triangle, or of a grid. The first one is between the first two routers."""
    if size == 3:
        return [(0, 1), (1, 2), (2, 0)]
    width = math.ceil(math.sqrt(size))
    right = [(i, i + 1) for i in range(size - 1) if (i + 1) % width]
    return right + [(i, i + width) for i in range(size - width)]


@contextlib.contextmanager
def pauses(routers: list[AnyRouter]) -> Iterator[None]:
    """Stops one of these routers at a time, in turns, until the end of the block."""
    ending, order = threading.Event(), random.Random(7)
    processes = [router.process for router in routers if isinstance(router, BynameRouter) and router.process]

    def pause() -> None:
        while processes and not ending.wait(order.uniform(0.1, 0.5)):
            process = order.choice(processes)
            process.send_signal(signal.SIGSTOP)
            time.sleep(order.uniform(0.25, 0.45))
            process.send_signal(signal.SIGCONT)

    with ThreadPoolExecutor(1) as pool:
        pausing = pool.submit(pause)
        try:
            yield
        finally:
            ending.set()
            pausing.result()


def cuts(kind: str, size: int, count: int, patience_s: float, with_pauses: bool) -> list[int]:
    """Cuts in one network. Returns the pings lost in each."""
    with tempfile.TemporaryDirectory(prefix="byname-") as folder, \
            network(Path(folder), [kind] * size, links(size), with_keys=kind == "byname", announced=(1, "/app/far")) as net:
        near, far = net.routers[:2]
        with client(far, str(binary()), "ping-server", "--announce", "/app/far"):
            wait_until(lambda: answers(near, "/app/far"), "the first answer", 240)
            # NLSR finds a link again with its next hello.
            rest_s = NLSR_HELLO_S + NLSR_BUILD_S if kind == "nlsr" else 0
            lost = []
            with pauses(net.routers[2:] if with_pauses else []):
                for _ in range(count):
                    # Until the direct link is used, and all other routers know their ways.
                    time.sleep(4 + size / 10 + rest_s)
                    lost.append(lost_pings(near, patience_s, lambda: net.set_link(0, 1, up=False)))
                    net.set_link(0, 1, up=True)
    return lost


def measure(kinds: list[str], size: int, rounds: int, patience_s: float, with_pauses: bool) -> list[dict]:
    lost: dict[str, list[int]] = {kind: [] for kind in kinds}
    load = os.getloadavg()[0]
    while any(len(lost[kind]) < rounds for kind in kinds):
        for kind in kinds:
            more = cuts(kind, size, min(CUTS_MAX, rounds - len(lost[kind])), patience_s, with_pauses)
            lost[kind] += more
            print(f"{size} {kind}: {more}", file=sys.stderr, flush=True)
    return [line(kind, size, rounds, lost[kind], load) | {"paused": with_pauses} for kind in kinds]


def line(kind: str, size: int, rounds: int, lost: list[int], load: float) -> dict:
    figures = {"p50": percentile(lost, 0.5), "p99": percentile(lost, 0.99), "max": max(lost)}
    model = [line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line]
    version = subprocess.run([str(binary()), "--version"], capture_output=True, text=True, check=True).stdout
    return {
        "experiment": "convergence", "kind": kind, "routers": size, "links": len(links(size)), "cuts": rounds,
        "lost": lost, **figures, **{f"{name}_ms": value * INTERVAL_MS for name, value in figures.items()},
        "parameters": {
            "interval_ms": INTERVAL_MS, "timeout_ms": TIMEOUT_MS, "advertise_ms": ADVERTISE_MS, "dead_ms": DEAD_MS,
            **({"nlsr_hello_s": NLSR_HELLO_S, "nlsr_build_s": NLSR_BUILD_S} if kind == "nlsr" else {}),
            "settled": SETTLED, "keys": kind == "byname",
        },
        "command": " ".join(["measure_convergence.py", *sys.argv[1:]]),
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "cpu": model[0] if model else "unknown",
        "cores": os.cpu_count(), "kernel": os.uname().release, "load_average": load,
        "commit": version[version.find("(") + 1:version.find(")")],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", default="byname,ndnd,nlsr")
    parser.add_argument("--sizes", default="3,10,50")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--patience", type=float, default=120.0, help="seconds until a cut must be overcome")
    parser.add_argument("--pause", action="store_true", help="byname's other routers stand still now and then")
    parser.add_argument("--out", type=argparse.FileType("a"), default=sys.stdout)
    options = parser.parse_args()
    kinds = options.kinds.split(",")
    for kind, variable, program in (("ndnd", "NDND_BIN", NDND), ("nlsr", "NLSR_BIN", NLSR)):
        if kind in kinds and not os.access(program, os.X_OK):
            kinds.remove(kind)
            print(f"{kind} is left out: ${variable} names no program", file=sys.stderr)
    for size in map(int, options.sizes.split(",")):
        for figures in measure(kinds, size, options.rounds, options.patience, options.pause):
            print(json.dumps(figures), file=options.out, flush=True)


if __name__ == "__main__":
    main()
