"""How long a large table takes to all routers of a fleet, and what a change of it and a node that comes back cost.

`measure_fleet_tables.py [--rules 200000,1000000] [--kind routes,built] [--agents 3] [--changed 10] [--out FILE]`

Starts etcd and some routers with an agent each, all on this machine. Chunks are at the first router; each other router asks
the one before it, so that a chunk crosses each link once. With `routes`, agents register all rules. With `built`, a builder beside
the first router makes a file for all. Then, for each number of rules:

- *load*: the rules are loaded as a table, until all routers have them.
- *change*: some rules get another group, as a delta.
- *rejoin*: the last agent is killed, the table is loaded again with as many rules changed, and the agent comes back.

A rule is a name of the real list of domains with a number behind it, and leads to one of sixteen groups. `bound_bytes` are the fewest
bytes that can say which rules have changed and where they lead now: log2 of the number of such sets, and of the
groups. Prints one line of JSON for each step. Needs `etcd` (Debian: etcd-server), and a quiet machine.
"""

import argparse
import base64
import json
import lzma
import math
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil

from measure_fleet import PREFIX, Etcd, Node, b64, group, tell, wait
from router import ROOT, binary, free_ports

GROUPS = 16
NETWORK = "/fleet-test"
PATIENCE_S = 3600
DOMAINS = ROOT.parent / "shared" / "data" / "domains_tb0hdan.txt.xz"


def names(count: int) -> list[str]:
    """Different names in no particular order: real ones where the list is there, each with as many children as needed."""
    real = []
    if DOMAINS.exists():
        for line in lzma.open(DOMAINS, "rt", errors="ignore"):
            labels = line.strip().lower().split(".")
            if all(label and all(char.isalnum() and char.isascii() or char == "-" for char in label) for label in labels):
                real.append("/" + "/".join(reversed(labels)))
    real = list(dict.fromkeys(real)) or [f"/made/{n}" for n in range(1_000_000)]
    return [real[n % len(real)] + (f"/part-{n // len(real)}" if n >= len(real) else "") for n in range(count)]


def bound_bytes(rules: int, changed: int) -> float:
    bits = (math.lgamma(rules + 1) - math.lgamma(changed + 1) - math.lgamma(rules - changed + 1)) / math.log(2)
    return (bits + changed * math.log2(GROUPS)) / 8


def folder_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir()) if folder.exists() else 0


class Fleet:
    def __init__(self, agents: int, rules: int, kind: str) -> None:
        self.kind = kind
        self.folder = Path(tempfile.mkdtemp(prefix="byname-fleet-", dir="/var/tmp"))
        self.etcd = Etcd(self.folder, 1)
        ports = free_ports(agents)
        options = ("--network", NETWORK, "--rows-max", str(rules + 1000))
        self.nodes = []
        for n, port in enumerate(ports):
            if kind == "built":
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
                 "--chunks", str(self.folder / "built"), "--network", NETWORK, "--pause", "100"]
        self.server = subprocess.Popen(
            build if kind == "built" else serve,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=self.nodes[0].environment,
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
        patience = str(PATIENCE_S) if self.kind == "built" else "0"
        done = subprocess.run(
            [str(binary()), "fleet", *self.options, "--patience", patience, *words], capture_output=True, text=True,
        )
        if done.returncode:
            sys.exit(f"byname fleet {' '.join(words)}: {done.stdout}{done.stderr}")
        took = time.time() - begun
        return begun, int(done.stdout.split("revision ")[1].split()[0].rstrip(":;,")), took

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


def text(rules: list[str], shift: dict[int, int]) -> str:
    return "".join(f"{name} g{(n + shift.get(n, 0)) % GROUPS}\n" for n, name in enumerate(rules))


def measure(agents: int, count: int, changed: int, kind: str) -> Iterator[dict]:
    rules = names(count)
    fleet = Fleet(agents, count, kind)
    built = ["--built"] if kind == "built" else []
    file = fleet.folder / "rules.txt"
    step = count // changed
    common = {"experiment": "fleet-table", "kind": kind, "agents": agents, "rules": count}
    bound = round(bound_bytes(count, changed), 1)
    try:
        file.write_text(text(rules, {}))
        begun, revision, wrote = fleet.write("table", "load", "world", str(file), *built)
        times = [at - begun for at in wait(fleet.nodes, revision, PATIENCE_S)]
        chunks = folder_bytes(fleet.nodes[-1].folder / "chunks")
        rss = max(psutil.Process(node.agent.pid).memory_info().rss for node in fleet.nodes)
        yield {**common, "step": "load", "write_s": round(wrote, 2), "first_s": round(min(times), 2),
               "last_s": round(max(times), 2), "bytes": chunks, "text_bytes": file.stat().st_size, "agent_bytes": rss}
        changes = {n * step: 1 for n in range(changed)}
        file.write_text("".join(f"{rules[n]} g{(n + 1) % GROUPS}\n" for n in changes))
        begun, revision, wrote = fleet.write("table", "change", "world", str(file))
        times = [at - begun for at in wait(fleet.nodes, revision, PATIENCE_S)]
        yield {**common, "step": "change", "changed": changed, "write_s": round(wrote, 3), "first_s": round(min(times), 3),
               "last_s": round(max(times), 3), "bytes": fleet.delta_bytes(), "bound_bytes": bound}
        node = fleet.nodes[-1]
        before = {path.name for path in (node.folder / "chunks").iterdir()}
        node.agent.kill()
        node.agent.wait()
        file.write_text(text(rules, {n * step + 1: 1 for n in range(changed)} | changes))
        _, revision, wrote = fleet.write("table", "load", "world", str(file), *built)
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
    parser.add_argument("--kind", default="routes,built", help="what routers have: routes, or a file")
    parser.add_argument("--agents", type=int, default=3, help="number of agents")
    parser.add_argument("--changed", type=int, default=10, help="rules that change at once")
    parser.add_argument("--out", type=Path, help="file to which lines are added")
    arguments = parser.parse_args()
    if not shutil.which("etcd"):
        sys.exit("etcd is missing (Debian: apt install etcd-server)")
    cases = [(int(rules), kind) for rules in arguments.rules.split(",") for kind in arguments.kind.split(",")]
    for rules, kind in cases:
        for record in measure(arguments.agents, rules, arguments.changed, kind):
            tell(record, arguments.out)


if __name__ == "__main__":
    main()
