"""Lookups a second in Python beside those in Rust, on the same tables and keys, in turns in one run.

    cargo build --release -p byname-python --example speed
    python tests/speed.py target/release/examples/speed

The wheel must be a release build, too. Prints a table; fails if an array is looked up at less than half of Rust's speed.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np

from byname import FlatTable, PrefixTable

KEYS = 1_000_000
STEP = 7919
ROUNDS = 7
TURNS = 3
SPREAD = np.uint64(0x9E3779B97F4A7C15)


def best(call: Callable[[], object]) -> float:
    """Million lookups a second in the best round."""
    shortest = float("inf")
    for _ in range(ROUNDS):
        start = time.perf_counter()
        call()
        shortest = min(shortest, time.perf_counter() - start)
    return KEYS / shortest / 1e6


def main(rust: str) -> int:
    numbers = np.arange(KEYS, dtype=np.uint64)
    order = numbers * STEP % KEYS
    flat = FlatTable.load(numbers * SPREAD, numbers % 251, value_bits=8)
    prefix = PrefixTable.from_rules([f"/{i % 1000}/{i}" for i in range(KEYS)], numbers % 251)
    ids = order * SPREAD
    paths = [f"/{i % 1000}/{i}/x/y" for i in order.tolist()]
    array = np.array(paths, dtype="S")
    blob = "".join(paths).encode()
    offsets = np.cumsum([0, *map(len, paths)])
    right = (order % 251).astype(np.int64)
    calls: dict[str, tuple[str, Callable[[], np.ndarray]]] = {
        "FlatTable, array of uint64": ("ids as bytes", lambda: flat.find(ids)),
        "PrefixTable, buffer with offsets": ("paths", lambda: prefix.find(blob, offsets=offsets)),
        "PrefixTable, array of dtype S": ("paths", lambda: prefix.find(array)),
        "PrefixTable, list of str": ("paths", lambda: prefix.find(paths)),
    }
    for name, (_, call) in calls.items():
        assert np.array_equal(call(), right), name

    in_rust: dict[str, list[float]] = {}
    in_python: dict[str, list[float]] = {}
    for _ in range(TURNS):
        for name, rate in json.loads(subprocess.check_output([rust])).items():
            in_rust.setdefault(name, []).append(rate)
        for name, (_, call) in calls.items():
            in_python.setdefault(name, []).append(best(call))
    print(f"{KEYS} keys, million lookups/s, median of {TURNS} turns\n")
    print(f"{'':34} {'Rust':>8} {'Python':>8} {'part':>6}")
    slow = 0
    for name, (of, _) in calls.items():
        rust_rate, python_rate = statistics.median(in_rust[of]), statistics.median(in_python[name])
        part = python_rate / rust_rate
        print(f"{name:34} {rust_rate:8.1f} {python_rate:8.1f} {part:6.0%}")
        slow += part < 0.5 and "list" not in name
    print(f"\nRust with keys of u64: {statistics.median(in_rust['ids']):.1f}")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
