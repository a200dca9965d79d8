"""How long a large table takes to all routers of a fleet, and what a change of it and a node that comes back cost.

`measure_fleet_tables.py [--rules 200000,1000000] [--kind routes,built,flat] [--agents 3] [--changed 10] [--repeats N]
[--names-memory-max MIB] [--out FILE]`

Starts etcd and some routers with an agent each, all on this machine. Chunks are at the first router; each other router asks
the one before it, so that a chunk crosses each link once. With `routes`, agents register all rules. With `built` and `flat`, a builder
beside the first router makes a file for all. Then, for each number of rules:

- *load*: the rules are loaded as a table, until all routers have them. With a file, `load_s` is the time until its chunks are in the
  folder and its head is in etcd, `build_s` that of the builder, and `spread_s` that from there to the last router. `disk_bytes` are those that
  all programs have written, and `disk_s` is the time in which this disk writes so many to files of 2 GB, with fsync, and reads them;
  `disk_times` is how many times as long the load took, and `spread_disk_times` the same of `spread_s` and of what agents and routers have written.
- *change*: some rules get another group, as a delta.
- *repeats*, with `--repeats`: the same rules get other groups, so many times, one change after the other. `last_s` is the median of all, and
  `last_max_s` the longest. With a file, `made_s` and `made_max_s` are the same from the moment when the builder has made the change.
- *rejoin*: the last agent is killed, the table is loaded again with as many rules changed, and the agent comes back.

A rule is a name of the real list of domains with a number behind it, and leads to one of sixteen groups. Flat names are the same as one
component. `bound_bytes` are the fewest bytes that can say which rules have changed and where they lead now: log2 of the number of such sets,
and of the groups. Prints one line of JSON for each step. Needs `etcd` (Debian: etcd-server), and a quiet machine. A hundred million rules
need 25 GB of disk and 8 GB of memory.
"""

import argparse
import base64
import json
import lzma
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from statistics import median

from measure_fleet import PREFIX, Etcd, Node, b64, group, tell, wait
from router import ROOT, binary, free_ports

GROUPS = 16
NETWORK = "/fleet-test"
PATIENCE_S = 3600
BUILT = re.compile(r"^(\S+)\s.* rows built in \d+ ms, a file of (\d+) bytes;.*with \d+ bytes; (\d+) ms in all", re.MULTILINE)
MADE = re.compile(r"^(\S+)\s.* changes made in \d+ ms", re.MULTILINE)
DOMAINS = ROOT.parent / "shared" / "data" / "domains_tb0hdan.txt.xz"


def real_names() -> list[str]:
    """Different names in no particular order: real ones where the list is there."""
    real = []
    if DOMAINS.exists():
        for line in lzma.open(DOMAINS, "rt", errors="ignore"):
            labels = line.strip().lower().split(".")
            if all(label and all(char.isalnum() and char.isascii() or char == "-" for char in label) for label in labels):
                real.append("/" + "/".join(reversed(labels)))
    return list(dict.fromkeys(real)) or [f"/made/{n}" for n in range(1_000_000)]


class Rules:
    """So many rules, which are never all in memory: each real name, and then as many children of each as needed."""

    def __init__(self, count: int, kind: str) -> None:
        self.count, self.real, self.child = count, real_names(), "/part-"
        if kind == "flat":
            self.real, self.child = ["/" + ".".join(reversed(name[1:].split("/"))) for name in self.real], "-part-"

    def name(self, n: int) -> str:
        part, at = divmod(n, len(self.real))
        return self.real[at] + (f"{self.child}{part}" if part else "")

    def write(self, path: Path, shift: dict[int, int]) -> None:
        groups = [f" g{n}\n" for n in range(GROUPS)]
        with path.open("w") as file:
            for begin in range(0, self.count, len(self.real)):
                part = begin // len(self.real)
                end = f"{self.child}{part}" if part else ""
                lines = [name + end + groups[(begin + at) % GROUPS]
                         for at, name in enumerate(self.real[:self.count - begin])]
                for n in shift:
                    if begin <= n < begin + len(lines):
                        lines[n - begin] = self.line(n, shift[n])
                file.write("".join(lines))

    def line(self, n: int, shift: int) -> str:
        return f"{self.name(n)} g{(n + shift) % GROUPS}\n"


def disk_seconds(folder: Path, bytes_in_all: int) -> float:
    """How long the disk takes to write so many bytes, and to read them, with nothing else."""
    path, block, took = folder / "disk", os.urandom(1 << 20), 0.0
    for begin in range(0, bytes_in_all, 2 << 30):
        blocks = (min(2 << 30, bytes_in_all - begin) + len(block) - 1) // len(block)
        begun = time.monotonic()
        with path.open("wb", buffering=0) as file:
            for _ in range(blocks):
                file.write(block)
            os.fsync(file.fileno())
        with path.open("rb", buffering=0) as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            while file.read(1 << 20):
                pass
        took += time.monotonic() - begun
        path.unlink()
    return took


def of_process(process: subprocess.Popen, file: str, field: str) -> int:
    """A number that the system has of a process: kibibytes of memory, or bytes that it has written."""
    return int(Path(f"/proc/{process.pid}/{file}").read_text().split(f"\n{field}:")[1].split()[0])


def bound_bytes(rules: int, changed: int) -> float:
    bits = (math.lgamma(rules + 1) - math.lgamma(changed + 1) - math.lgamma(rules - changed + 1)) / math.log(2)
    return (bits + changed * math.log2(GROUPS)) / 8


def folder_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir()) if folder.exists() else 0


class Fleet:
    def __init__(self, agents: int, rules: int, kind: str, names_mib: int) -> None:
        self.kind = kind
        self.folder = Path(tempfile.mkdtemp(prefix="byname-fleet-", dir="/var/tmp"))
        self.etcd = Etcd(self.folder, 1)
        ports = free_ports(agents)
        options = ("--network", NETWORK, "--rows-max", str(rules + 1000))
        self.nodes = []
        for n, port in enumerate(ports):
            if kind != "routes":
                tables = self.folder / f"tables{n}"
                tables.mkdir()
                mine, settings = ("--tables", str(tables / "fleet.toml")), f'[fleet]\ntables = "{tables}/fleet.toml"\n'
                self.nodes.append(Node(self.folder, n, port, self.etcd, 1000, options + mine, settings))
            else:
                self.nodes.append(Node(self.folder, n, port, self.etcd, rules + 1000, options))
        for node in self.nodes:
            while not (node.folder / "nfd.sock").exists():
                time.sleep(0.01)
        serve = [str(binary()), "fleet", "serve", *self.options, "--network", NETWORK]
        build = [str(binary()), "builder", "--etcd", self.etcd.clients[0], "--chunks-from", str(self.folder / "chunks"),
                 "--chunks", str(self.folder / "built"), "--network", NETWORK, "--pause", "100",
                 "--names-memory-max", str(names_mib)]
        self.log, self.written = self.folder / "builder.log", 0
        self.server = subprocess.Popen(
            serve if kind == "routes" else build,
            stdout=subprocess.DEVNULL, stderr=self.log.open("w"), env=self.nodes[0].environment,
        )
        pairs: dict[str, str | None] = {"want/routes" + NETWORK + "/32=fleet": json.dumps(
            {"group": "chunks", "inherit": True, "capture": False})}
        for node, before in zip(self.nodes, [None, *self.nodes]):
            for number in range(GROUPS):
                uri = f"udp4://127.0.0.2:{9000 + number}"
                pairs[f"want/links/{node.name}/l{number}"] = json.dumps({"uri": uri})
                pairs[f"want/groups/g{number}/{node.name}"] = group([(f"l{number}", 10)])
            if before:
                uri = f"udp4://127.0.0.1:{before.port}"
                pairs[f"want/links/{node.name}/back"] = json.dumps({"uri": uri})
                pairs[f"want/groups/chunks/{node.name}"] = group([("back", 10)])
        keys = list(pairs)
        for at in range(0, len(keys), 100):
            _, revision = self.etcd.put({key: pairs[key] for key in keys[at:at + 100]})
        for node in self.nodes:
            node.start_agent()
        wait(self.nodes, revision)

    @property
    def options(self) -> list[str]:
        return ["--etcd", self.etcd.clients[0], "--chunks", str(self.folder / "chunks")]

    def write(self, *words: str) -> tuple[float, int, float]:
        """`byname fleet`, which must succeed. Returns when it began, the revision, and how long it took."""
        begun = time.time()
        # It waits for the builder, which decides about the revision.
        patience = str(PATIENCE_S) if self.kind != "routes" else "0"
        command = [str(binary()), "fleet", *self.options, "--patience", patience, *words]
        told = self.folder / "told"
        with told.open("w") as out:
            done = subprocess.Popen(command, stdout=out, stderr=out)
            _, status, usage = os.wait4(done.pid, 0)
        done.returncode = os.waitstatus_to_exitcode(status)
        self.written += usage.ru_oublock * 512
        self.writer_memory = usage.ru_maxrss << 10
        if done.returncode:
            sys.exit(f"byname fleet {' '.join(words)}: {told.read_text()}")
        took = time.time() - begun
        return begun, int(told.read_text().split("revision ")[1].split()[0].rstrip(":;,")), took

    def phases(self, begun: float, last: float) -> dict:
        """When the builder began and ended its last file, and what it says of it."""
        built = BUILT.findall(self.log.read_text())
        if not built:
            return {}
        at, file_bytes, took_ms = built[-1]
        ended = datetime.fromisoformat(at.replace("Z", "+00:00")).timestamp()
        took = int(took_ms) / 1e3
        return {"file_bytes": int(file_bytes), "load_s": round(ended - took - begun, 2), "build_s": round(took, 2),
                "spread_s": round(last - ended, 2)}

    def made(self) -> float | None:
        """When the builder had made its last change of a file."""
        made = MADE.findall(self.log.read_text())
        return datetime.fromisoformat(made[-1].replace("Z", "+00:00")).timestamp() if made else None

    def disk_bytes(self) -> int:
        """Bytes that all programs have written to the disk."""
        return self.written + of_process(self.server, "io", "write_bytes") + self.nodes_bytes()

    def nodes_bytes(self) -> int:
        """Bytes that agents and routers have written to the disk."""
        running = [*(node.agent for node in self.nodes), *(node.router for node in self.nodes)]
        return sum(of_process(process, "io", "write_bytes") for process in running)

    def delta_bytes(self) -> int:
        """Bytes of the values of all deltas in etcd."""
        begin, end = (f"{PREFIX}want/tables/world/{word}" for word in ("deltas/", "deltas0"))
        body = json.dumps({"key": b64(begin), "range_end": b64(end)}).encode()
        with urllib.request.urlopen(self.etcd.clients[0] + "/v3/kv/range", body, timeout=10) as answer:
            return sum(len(base64.b64decode(pair["value"])) for pair in json.load(answer).get("kvs", []))

    def end(self) -> None:
        self.server.kill()
        self.server.wait()
        for node in self.nodes:
            node.end()
        self.etcd.end()
        shutil.rmtree(self.folder, ignore_errors=True)


def measure(agents: int, count: int, changed: int, repeats: int, kind: str, names_mib: int) -> Iterator[dict]:
    rules = Rules(count, kind)
    fleet = Fleet(agents, count, kind, names_mib)
    options = {"routes": [], "built": ["--built"], "flat": ["--flat", "/objects", "--check", "4"]}[kind]
    file = fleet.folder / "rules.txt"
    step = count // changed
    common = {"experiment": "fleet-table", "kind": kind, "agents": agents, "rules": count}
    bound = round(bound_bytes(count, changed), 1)
    try:
        rules.write(file, {})
        written, spread = fleet.disk_bytes(), fleet.nodes_bytes()
        begun, revision, wrote = fleet.write("table", "load", "world", str(file), *options)
        times = [at - begun for at in wait(fleet.nodes, revision, PATIENCE_S)]
        written, spread = fleet.disk_bytes() - written, fleet.nodes_bytes() - spread
        chunks = folder_bytes(fleet.nodes[-1].folder / "chunks")
        rss = max(of_process(node.agent, "status", "VmRSS") for node in fleet.nodes) << 10
        record = {**common, "step": "load", "write_s": round(wrote, 2), "first_s": round(min(times), 2),
                  "last_s": round(max(times), 2), "bytes": chunks, "text_bytes": file.stat().st_size, "agent_bytes": rss}
        if kind != "routes":
            record |= fleet.phases(begun, begun + max(times))
            record |= {"writer_bytes": fleet.writer_memory, "builder_bytes": of_process(fleet.server, "status", "VmHWM") << 10,
                       "chunk_bytes": folder_bytes(fleet.folder / "chunks"), "disk_bytes": written}
            record["disk_s"] = round(disk_seconds(fleet.folder, written), 2)
            record["disk_times"] = round(max(times) / record["disk_s"], 2)
            record |= {"spread_bytes": spread, "spread_disk_s": round(disk_seconds(fleet.folder, spread), 2)}
            record["spread_disk_times"] = round(record["spread_s"] / record["spread_disk_s"], 2)
            record["names_mib"] = names_mib
        yield record
        changes = {n * step: 1 for n in range(changed)}
        some = fleet.folder / "changes.txt"
        some.write_text("".join(rules.line(n, 1) for n in changes))
        begun, revision, wrote = fleet.write("table", "change", "world", str(some))
        times = [at - begun for at in wait(fleet.nodes, revision, PATIENCE_S)]
        yield {**common, "step": "change", "changed": changed, "write_s": round(wrote, 3), "first_s": round(min(times), 3),
               "last_s": round(max(times), 3), "bytes": fleet.delta_bytes(), "bound_bytes": bound}
        lasts, since_made = [], []
        # In the end, all is as after the first change.
        for shift in range(repeats, 0, -1):
            some.write_text("".join(rules.line(n, shift) for n in changes))
            begun, revision, _ = fleet.write("table", "change", "world", str(some))
            last = max(wait(fleet.nodes, revision, PATIENCE_S))
            lasts.append(last - begun)
            since_made.append(last - (fleet.made() or begun))
        if repeats:
            record = {**common, "step": "repeats", "changed": changed, "repeats": repeats,
                      "last_s": round(median(lasts), 3), "last_max_s": round(max(lasts), 3)}
            if kind != "routes":
                record |= {"made_s": round(median(since_made), 3), "made_max_s": round(max(since_made), 3)}
            yield record
        node = fleet.nodes[-1]
        before = {path.name for path in (node.folder / "chunks").iterdir()}
        node.agent.kill()
        node.agent.wait()
        rules.write(file, {n * step + 1: 1 for n in range(changed)} | changes)
        _, revision, wrote = fleet.write("table", "load", "world", str(file), *options)
        wait(fleet.nodes[:-1], revision, PATIENCE_S)
        begun = time.time()
        node.start_agent()
        wait([node], revision, PATIENCE_S)
        back = node.time_of(revision) - begun
        new = [path for path in (node.folder / "chunks").iterdir() if path.name not in before]
        yield {**common, "step": "rejoin", "changed": changed, "write_s": round(wrote, 2), "last_s": round(back, 2),
               "bytes": sum(path.stat().st_size for path in new), "chunks": len(new), "bound_bytes": bound}
    finally:
        fleet.end()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rules", default="200000,1000000", help="numbers of rules")
    parser.add_argument("--kind", default="routes,built", help="what routers have: routes, a file of prefixes (built), or one of flat names")
    parser.add_argument("--agents", type=int, default=3, help="number of agents")
    parser.add_argument("--names-memory-max", type=int, default=4096, metavar="MIB", help="as that of `byname builder`")
    parser.add_argument("--changed", type=int, default=10, help="rules that change at once")
    parser.add_argument("--repeats", type=int, default=0, help="how often they change again")
    parser.add_argument("--out", type=Path, help="file to which lines are added")
    arguments = parser.parse_args()
    if not shutil.which("etcd"):
        sys.exit("etcd is missing (Debian: apt install etcd-server)")
    cases = [(int(rules), kind) for rules in arguments.rules.split(",") for kind in arguments.kind.split(",")]
    for rules, kind in cases:
        for record in measure(arguments.agents, rules, arguments.changed, arguments.repeats, kind, arguments.names_memory_max):
            tell(record, arguments.out)


if __name__ == "__main__":
    main()
