"""How soon a change of the intent is in the FIBs of a fleet.

`measure_fleet.py [--agents 3,30,300] [--members 1,3] [--changes N] [--out FILE]`

For each number of agents and of etcd's members, starts etcd and as many routers with an agent each, all on this machine.
Then makes changes, one at a time, each after all agents have the one before:

- *route*: a route moves from one group of nexthops to another, which is one key for all nodes.
- *group*: the nexthops of a group get other costs at each node, which is one key for each.

The time of each node ends when its agent says in its log that the router has the revision: the router has answered the last
command then, and forwards accordingly. It begins when the transaction is sent to etcd. Prints one line of JSON for each
kind of change: p50, p99 and most of all nodes' times, and of each change's slowest node, in ms; and the time after which an
agent that was killed has everything again. Needs `etcd` (Debian: etcd-server), and a quiet machine.
"""

import argparse
import base64
import json
import math
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from datetime import datetime
from pathlib import Path

from router import binary

PREFIX = "/byname/main/"
APPLIED = re.compile(r"^(\S+)\s.*the router has revision (\d+)")
PATIENCE_S = 120


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


class Etcd:
    """Some members on this machine."""

    def __init__(self, folder: Path, members: int) -> None:
        ports = free_ports(2 * members)
        urls = [f"http://127.0.0.1:{port}" for port in ports]
        self.clients, peers = urls[:members], urls[members:]
        cluster = ",".join(f"m{n}={peer}" for n, peer in enumerate(peers))
        self.processes = [
            subprocess.Popen(
                ["etcd", "--name", f"m{n}", "--data-dir", str(folder / f"m{n}"), "--listen-client-urls", client,
                 "--advertise-client-urls", client, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                 "--initial-cluster", cluster, "--logger", "zap"],
                stdout=subprocess.DEVNULL, stderr=(folder / f"m{n}.log").open("w"),
            )
            for n, (client, peer) in enumerate(zip(self.clients, peers))
        ]
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                self.put({})
                return
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def put(self, pairs: dict[str, str | None]) -> tuple[float, int]:
        """Writes keys below `want/` with `want/head` in one transaction. Returns when it was sent, and its revision."""
        head = {"request_put": {"key": b64(PREFIX + "want/head"), "value": b64('{"format":1,"by":"measure_fleet"}')}}
        operations = [head]
        for key, value in pairs.items():
            if value is None:
                operations.append({"request_delete_range": {"key": b64(PREFIX + key)}})
            else:
                operations.append({"request_put": {"key": b64(PREFIX + key), "value": b64(value)}})
        body = json.dumps({"success": operations}).encode()
        sent = time.time()
        with urllib.request.urlopen(self.clients[0] + "/v3/kv/txn", body, timeout=10) as answer:
            return sent, int(json.load(answer)["header"]["revision"])

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


class Node:
    """A router and its agent. Notes when the router had which revision."""

    def __init__(
        self, folder: Path, number: int, port: int, etcd: Etcd, routes_max: int = 1000, options: tuple[str, ...] = (),
        settings: str = "",
    ) -> None:
        self.options = options
        self.name, self.folder, self.etcd, self.port = f"n{number}", folder / f"n{number}", etcd, port
        self.folder.mkdir()
        self.applied: dict[int, float] = {}
        config = self.folder / "byname.toml"
        config.write_text(
            f'[general]\nstate_folder = "{self.folder}"\n[faces.udp]\nport = {port}\nipv6 = false\n'
            f"multicast = {{ enabled = false }}\n[faces.tcp]\nlisten = false\n[faces.websocket]\nlisten = false\n"
            f'[faces.unix]\npath = "{self.folder}/nfd.sock"\n[metrics]\nenabled = false\n'
            f"[tables]\npit_entries = 4096\ncs_packets = 16\ndead_nonces = 256\n[rib]\nroutes_max = {routes_max}\n{settings}"
        )
        self.router = subprocess.Popen(
            [str(binary()), "run", "--config", str(config)],
            stdout=subprocess.DEVNULL, stderr=(self.folder / "router.log").open("w"),
        )
        self.agent = None

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "RUST_LOG": "byname_fleet=debug", "NDN_CLIENT_TRANSPORT": f"unix://{self.folder}/nfd.sock"}

    def start_agent(self) -> None:
        self.agent = subprocess.Popen(
            [str(binary()), "agent", "--node", self.name, "--etcd", ",".join(self.etcd.clients),
             "--state", str(self.folder / "agent.json"), "--chunks", str(self.folder / "chunks"), *self.options],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=self.environment,
        )
        threading.Thread(target=self.follow, args=(self.agent,), daemon=True).start()

    def follow(self, agent: subprocess.Popen) -> None:
        for line in agent.stderr:
            if found := APPLIED.match(line):
                at = datetime.fromisoformat(found[1].replace("Z", "+00:00")).timestamp()
                self.applied.setdefault(int(found[2]), at)

    def time_of(self, revision: int) -> float | None:
        """When the router had this revision, or a later one."""
        return min((at for found, at in list(self.applied.items()) if found >= revision), default=None)

    def end(self) -> None:
        for process in (self.agent, self.router):
            if process:
                process.kill()
                process.wait()


def wait(nodes: list[Node], revision: int, patience_s: float = PATIENCE_S) -> list[float]:
    deadline = time.monotonic() + patience_s
    while True:
        times = [node.time_of(revision) for node in nodes]
        if all(times):
            return times
        if time.monotonic() > deadline:
            late = [node.name for node, at in zip(nodes, times) if at is None]
            sys.exit(f"{len(late)} of {len(nodes)} agents do not reach revision {revision}: {late[:5]}")
        time.sleep(0.002)


def percentile(sorted_ms: list[float], share: float) -> float:
    return round(sorted_ms[max(0, math.ceil(share * len(sorted_ms)) - 1)], 2)


def group(links: list[tuple[str, int]]) -> str:
    return json.dumps({"nexthops": [{"link": link, "cost": cost} for link, cost in links]})


def route(name: str) -> str:
    return json.dumps({"group": name, "inherit": True, "capture": False})


def intent(nodes: list[Node]) -> list[dict[str, str | None]]:
    """Two links and two groups at each node, and a hundred routes, in transactions of at most 100 keys."""
    pairs: dict[str, str | None] = {}
    for node in nodes:
        for link, port in (("a", 9), ("b", 10)):
            pairs[f"want/links/{node.name}/{link}"] = json.dumps({"uri": f"udp4://127.0.0.2:{port}"})
        pairs[f"want/groups/east/{node.name}"] = group([("a", 10), ("b", 20)])
        pairs[f"want/groups/west/{node.name}"] = group([("b", 10), ("a", 20)])
    for n in range(100):
        pairs[f"want/routes/example/{n}"] = route("east")
    keys = list(pairs)
    return [{key: pairs[key] for key in keys[at:at + 100]} for at in range(0, len(keys), 100)]


def changes(kind: str, nodes: list[Node], number: int) -> list[dict[str, str | None]]:
    if kind == "route":
        return [{"want/routes/example/7": route("west" if number % 2 == 0 else "east")}]
    links = [("a", 10), ("b", 20)] if number % 2 else [("b", 10), ("a", 20)]
    return [
        {f"want/groups/east/{node.name}": group(links) for node in nodes[at:at + 100]}
        for at in range(0, len(nodes), 100)
    ]


def measure(agents: int, members: int, count: int) -> list[dict]:
    records = []
    folder = Path(tempfile.mkdtemp(prefix="byname-fleet-"))
    etcd, nodes = Etcd(folder, members), []
    try:
        for number, port in enumerate(free_ports(agents)):
            nodes.append(Node(folder, number, port, etcd))
        for node in nodes:
            while not (node.folder / "nfd.sock").exists():
                time.sleep(0.01)
            node.start_agent()
        revision = 0
        for pairs in intent(nodes):
            _, revision = etcd.put(pairs)
        wait(nodes, revision)
        for kind in ("route", "group"):
            all_ms, slowest = [], []
            for number in range(count):
                # The last transaction counts. All are sent without a pause.
                sent = time.time()
                for pairs in changes(kind, nodes, number):
                    _, revision = etcd.put(pairs)
                times = sorted((at - sent) * 1e3 for at in wait(nodes, revision))
                all_ms += times
                slowest.append(times[-1])
                time.sleep(0.1)
            all_ms.sort()
            slowest.sort()
            records.append({
                "experiment": "fleet", "change": kind, "agents": agents, "members": members, "changes": count,
                "p50_ms": percentile(all_ms, 0.5), "p99_ms": percentile(all_ms, 0.99), "most_ms": round(all_ms[-1], 2),
                "slowest_p50_ms": percentile(slowest, 0.5), "slowest_p99_ms": percentile(slowest, 0.99),
            })
        node = nodes[-1]
        node.agent.send_signal(signal.SIGKILL)
        node.agent.wait()
        _, revision = etcd.put({"want/routes/example/8": route("west")})
        wait(nodes[:-1], revision)
        begun = time.time()
        node.start_agent()
        wait([node], revision)
        records[-1]["killed_agent_back_ms"] = round((node.time_of(revision) - begun) * 1e3, 1)
        return records
    finally:
        for node in nodes:
            node.end()
        etcd.end()
        shutil.rmtree(folder, ignore_errors=True)


def tell(record: dict, out: Path | None) -> None:
    """Prints a record as one line of JSON, and adds it to a file."""
    line = json.dumps(record)
    print(line, flush=True)
    if out:
        with out.open("a") as file:
            file.write(line + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", default="3,30,300", help="numbers of agents")
    parser.add_argument("--members", default="1,3", help="numbers of etcd's members")
    parser.add_argument("--changes", type=int, default=50, help="changes of each kind")
    parser.add_argument("--out", type=Path, help="file to which lines are added")
    arguments = parser.parse_args()
    if not shutil.which("etcd"):
        sys.exit("etcd is missing (Debian: apt install etcd-server)")
    for agents in map(int, arguments.agents.split(",")):
        for members in map(int, arguments.members.split(",")):
            for record in measure(agents, members, arguments.changes):
                tell(record, arguments.out)


if __name__ == "__main__":
    main()
