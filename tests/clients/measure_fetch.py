"""How fast objects are fetched: `measure_fetch.py [--megabytes N] [--rounds N] [--ndnd FILE] [--against BYNAME]... [--out FILE]`.

Starts the byname under test ($BYNAME_BIN, or the release build) and publishes
an object of N (100) MB over its Unix socket by `byname put`. In turn, each
client fetches it N (5) times over that socket: `byname get`; other builds of
byname (--against), such as the parent commit's; `ndncatchunks`, if it is in the
path; and `ndnd cat` (--ndnd, or `ndnd` in the path). Prints a line of JSON for
each fetch, and then one with the medians; --out appends a record of each
client. Every client writes to a file in memory (/dev/shm), and its content is
compared. The first fetch fills the
content store unless --no-store is given; then all segments come from the
producer. Wants a quiet machine.
"""

import argparse
import hashlib
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from router import Router, binary

NAME = "/measure/object"


def clients(arguments: argparse.Namespace, under_test: Path, out: Path) -> dict[str, list[str]]:
    """The command of each client that is installed."""
    found = {"byname": [str(under_test), "get", NAME, "-q", "-o", str(out)]}
    for number, other in enumerate(arguments.against, 1):
        found[f"against-{number}"] = [other, "get", NAME, "-q", "-o", str(out)]
    if program := shutil.which("ndncatchunks"):
        found["ndncatchunks"] = [program, "-q", NAME]
    if program := arguments.ndnd or shutil.which("ndnd"):
        found["ndnd"] = [program, "cat", NAME]
    return found


def processor_s() -> float:
    """Processor time of all clients so far, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def fetch(command: list[str], environment: dict[str, str], out: Path) -> tuple[float, float]:
    """Runs a client. Returns the seconds that it took, with its start, and those of processor time."""
    out.unlink(missing_ok=True)
    begin, used = time.monotonic(), processor_s()
    if str(out) in command:
        subprocess.run(command, env=environment, check=True, stderr=subprocess.DEVNULL)
    else:
        with out.open("wb") as file:
            subprocess.run(command, env=environment, check=True, stdout=file, stderr=subprocess.DEVNULL)
    return time.monotonic() - begin, processor_s() - used


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ndnd")
    parser.add_argument("--against", action="append", default=[])
    parser.add_argument("--no-store", action="store_true")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        measure(arguments, Path(folder))


def measure(arguments: argparse.Namespace, folder: Path) -> None:
    under_test, source, out = binary(), folder / "source", folder / "fetched"
    source.write_bytes(os.urandom(arguments.megabytes * 1_000_000))
    expected = hashlib.sha256(source.read_bytes()).digest()
    store = "[tables]\ncs_serve = false\n" if arguments.no_store else ""
    router = Router(folder / "router", extra_config=store)
    with router:
        environment = os.environ | {"NDN_CLIENT_TRANSPORT": router.unix}
        producer = subprocess.Popen([under_test, "put", NAME, source, "--json"], env=environment, stdout=subprocess.PIPE)
        assert producer.stdout and producer.stdout.readline(), "the producer has started"
        try:
            rates: dict[str, list[float]] = {}
            used: dict[str, list[float]] = {}
            for turn in range(arguments.rounds):
                for client, command in clients(arguments, under_test, out).items():
                    seconds, processor = fetch(command, environment, out)
                    assert hashlib.sha256(out.read_bytes()).digest() == expected, f"{client} fetched something else"
                    rates.setdefault(client, []).append(arguments.megabytes / seconds)
                    used.setdefault(client, []).append(processor / arguments.megabytes * 1e3)
                    print(json.dumps({"client": client, "turn": turn, "mb_per_s": round(rates[client][-1], 1)}), flush=True)
        finally:
            producer.kill()
            producer.wait()
    print(json.dumps({"median_mb_per_s": {client: round(statistics.median(all_), 1) for client, all_ in rates.items()}}))
    if arguments.out:
        with arguments.out.open("a") as file:
            for client, all_ in rates.items():
                file.write(json.dumps(record(arguments, under_test, client, all_, used[client])) + "\n")


def record(
    arguments: argparse.Namespace, under_test: Path, client: str, rates: list[float], used: list[float]
) -> dict[str, object]:
    """A line for docs/records."""
    version = subprocess.run([under_test, "--version"], capture_output=True, text=True, check=True).stdout
    model = next(line.split(": ")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name"))
    return {
        "experiment": "fetch", "client": client, "store": not arguments.no_store,
        "mb_per_s": round(statistics.median(rates), 1), "mb_per_s_min": round(min(rates), 1),
        "mb_per_s_max": round(max(rates), 1), "client_cpu_ms_per_mb": round(statistics.median(used), 3),
        "parameters": {"megabytes": arguments.megabytes, "rounds": arguments.rounds, "transport": "unix"},
        "command": " ".join(["measure_fetch.py", *sys.argv[1:]]),
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "cpu": model, "cores": os.cpu_count(),
        "kernel": platform.release(), "load_average": os.getloadavg()[0],
        "commit": version[version.find("(") + 1:version.find(")")],
    }


if __name__ == "__main__":
    main()
