"""Networks whose routers find their routes themselves, each in a namespace, joined by veth pairs: byname's, ndnd's, and
byname as a forwarder with NLSR beside it.

Clients stay outside the namespaces, because a Unix socket works across them. All routers believe everybody, as ndn-dv
does with `keychain: insecure`, unless the network is made with keys.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from router import Router, binary
from topology import _ip

NDND = os.environ.get("NDND_BIN", "")
NLSR = os.environ.get("NLSR_BIN", "")
NETWORK = "/net"
HOSTS = ("host", "stranger", "issued")
ADVERTISE_MS, DEAD_MS = 1000, 4000
# The shortest that NLSR takes.
NLSR_HELLO_S, NLSR_BUILD_S = 30, 5


def wait_until(holds: Callable[[], bool], what: str, wait_s: float) -> None:
    deadline = time.monotonic() + wait_s
    while not holds():
        assert time.monotonic() < deadline, f"{what}: not within {wait_s} s"
        time.sleep(0.05)


class NdndRouter:
    """ndnd's forwarder, and ndn-dv beside it."""

    def __init__(self, directory: Path, name: str, netns: str) -> None:
        self.directory, self.name, self.netns, self.port = directory, name, netns, 6363
        self.socket_path = directory / f"{name}.sock"
        self.neighbours: list[str] = []
        self.caches = True
        self.keys: Path | None = None
        self.processes: list[subprocess.Popen[bytes]] = []

    @property
    def unix(self) -> str:
        return f"unix://{self.socket_path}"

    def log(self) -> str:
        paths = [self.directory / f"{self.name}-{what}.log" for what in ("fw", "dv")]
        return "\n".join(path.read_text(errors="replace") for path in paths if path.exists())

    def _run(self, what: str, config: dict) -> None:
        path = self.directory / f"{self.name}-{what}.yml"
        path.write_text(json.dumps(config))
        with (self.directory / f"{self.name}-{what}.log").open("wb") as log:
            self.processes.append(subprocess.Popen(
                ["ip", "netns", "exec", self.netns, NDND, what, "run", str(path)],
                env={**os.environ, "HOME": str(self.directory), "NDN_CLIENT_TRANSPORT": self.unix, "GOMAXPROCS": "2"},
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            ))

    def start(self) -> "NdndRouter":
        self._run("fw", {
            "core": {"log_level": "WARN"},
            "faces": {
                "unix": {"socket_path": str(self.socket_path)}, "udp": {"enabled_multicast": False},
                "websocket": {"enabled": False},
            },
            "fw": {"threads": 1},
            # Nothing is cached where a test wants each fetch to go through the network.
            "tables": {"content_store": {"capacity": 1024, "admit": self.caches, "serve": self.caches}},
        })
        wait_until(self.socket_path.exists, "ndnd's socket", 10)
        trust = {"keychain": "insecure", "trust_anchors": []}
        if self.keys:
            anchor = re.search("Name: (.*)", (self.keys / "anchor.cert").read_text())
            assert anchor
            trust = {"keychain": f"dir://{self.keys}", "trust_anchors": [anchor[1]]}
        self._run("dv", {"dv": {
            "network": NETWORK, "router": f"{NETWORK}/{self.name}", **trust,
            "advertise_interval": ADVERTISE_MS, "router_dead_interval": DEAD_MS,
            "neighbors": [{"uri": uri} for uri in self.neighbours],
        }})
        # The forwarder tells ndn-dv of a prefix once, and nobody hears it before ndn-dv is there.
        wait_until(lambda: run(self, NDND, "dv", "status").returncode == 0, "ndn-dv's status", 30)
        return self

    def stop(self) -> None:
        for process in reversed(self.processes):
            process.send_signal(signal.SIGINT)
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.processes.clear()

    def __enter__(self) -> "NdndRouter":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


class BynameRouter(Router):
    """byname with routing of its own."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.neighbours: list[str] = []
        # Further settings of [routing].
        self.routing = ""
        self.keys: Path | None = None

    def config(self) -> str:
        trust = f'keys = "{self.keys}"' if self.keys else "insecure = true"
        routing = (
            f'[routing]\nnetwork = "{NETWORK}"\nname = "{NETWORK}/{self.name}"\n{trust}\nmulticast = false\n'
            f'advertise_interval = "{ADVERTISE_MS} ms"\ndead_interval = "{DEAD_MS} ms"\n{self.routing}'
        )
        links = "".join(f'[[routing.neighbor]]\nface = "{uri.replace("udp:", "udp4:")}"\n' for uri in self.neighbours)
        return super().config() + routing + links


class EndHost(Router):
    """byname on a host without routing. Its hub is the router that it names."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.neighbours: list[str] = []
        self.keys: Path | None = None

    def config(self) -> str:
        assert self.keys
        told = json.loads(piped(str(binary()), "key", "--folder", str(self.keys), "list", "--json"))
        name = next(key["key"] for key in told if key["identity"] == f"{NETWORK}/{self.name}")
        [secret] = self.keys.glob("*.key")
        hub = self.neighbours[0].replace("udp:", "udp4:")
        certificates = json.dumps([str(file) for file in self.keys.glob("*.ndncert")])
        return (
            f'{super().config()}[rib.propagate]\nenabled = true\nhub = "{hub}"\nkey_name = "{name}"\n'
            f'key_file = "{secret}"\n[trust]\ncertificates = {certificates}\n'
        )


class NlsrRouter(Router):
    """byname as the forwarder, and NLSR beside it, with the shortest intervals that NLSR takes."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.neighbours: list[str] = []
        self.peers: list[tuple[str, str]] = []
        self.announced: list[str] = []
        self.keys: Path | None = None
        self.daemon: subprocess.Popen[bytes] | None = None

    def nlsr_config(self) -> str:
        peers = "".join(
            f"  neighbor {{\n    name {NETWORK}/site/%C1.Router/{name}\n    face-uri {uri}\n    link-cost 1\n  }}\n"
            for name, uri in self.peers
        )
        announced = "".join(f"  {prefix} 0\n" for prefix in self.announced)
        everybody = "trust-anchor {\n      type any\n    }"
        return f"""general {{
  network {NETWORK}
  site /site
  router /%C1.Router/{self.name}
  sync-protocol psync
  state-dir {self.directory}/{self.name}-nlsr
}}
neighbors {{
  hello-retries 3
  hello-timeout 1
  hello-interval {NLSR_HELLO_S}
  adj-lsa-build-interval {NLSR_BUILD_S}
{peers}}}
hyperbolic {{
  state off
}}
fib {{
  max-faces-per-prefix 3
  routing-calc-interval 0
}}
advertising {{
{announced}}}
security {{
  validator {{
    {everybody}
  }}
  prefix-update-validator {{
    {everybody}
  }}
}}
"""

    def start(self, wait_s: float = 10.0) -> "NlsrRouter":
        super().start(wait_s)
        for _, uri in self.peers:
            self.cli("face", "create", uri, "permanent")
        home = self.directory / f"{self.name}-nlsr"
        home.mkdir(exist_ok=True)
        path = self.directory / f"{self.name}-nlsr.conf"
        path.write_text(self.nlsr_config())
        with (self.directory / f"{self.name}-nlsr.log").open("wb") as log:
            self.daemon = subprocess.Popen(
                ["ip", "netns", "exec", self.netns, NLSR, "-f", str(path)],
                env={**os.environ, "HOME": str(home), "NDN_CLIENT_TRANSPORT": self.unix},
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )
        return self

    def stop(self, wait_s: float = 10.0) -> int:
        if self.daemon:
            self.daemon.terminate()
            self.daemon.wait(wait_s)
            self.daemon = None
        return super().stop(wait_s)


class Host:
    """byname on a host of its own, as the README starts it."""

    def __init__(self, directory: Path, name: str, netns: str, environ: dict[str, str]) -> None:
        self.directory, self.name, self.netns = directory, name, netns
        self.environ = {**environ, "STATE_DIRECTORY": str(directory / f"{name}-state")}
        self.socket_path = directory / f"{name}.sock"
        self.unix = f"unix://{self.socket_path}"

    def __enter__(self) -> "Host":
        config = self.directory / f"{self.name}.toml"
        config.write_text(f'[faces.unix]\npath = "{self.socket_path}"\n')
        with (self.directory / f"{self.name}.log").open("wb") as log:
            self.process = subprocess.Popen(
                ["ip", "netns", "exec", self.netns, str(binary()), "run", "--config", str(config), "--network", "/example",
                 "--name", f"/example/{self.name}", "--keys", str(self.directory / self.name)],
                env=self.environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )
        wait_until(self.socket_path.exists, f"{self.name}'s socket", 10)
        return self

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(10)


AnyRouter = BynameRouter | NdndRouter | NlsrRouter | EndHost | Host


@dataclass
class Network:
    """Routers and the links between them."""

    routers: list[AnyRouter]
    links: dict[tuple[int, int], tuple[str, str, str]] = field(default_factory=dict)

    def set_link(self, near: int, far: int, up: bool) -> None:
        """Cuts or heals a link: frames go to a station that is not there, and no end is told, as with a broken switch."""
        for end in ((near, far), (far, near)):
            space, device, peer = self.links[end]
            if up:
                _ip("-n", space, "neigh", "del", peer, "dev", device)
            else:
                _ip("-n", space, "neigh", "replace", peer, "lladdr", "02:00:00:00:00:99", "dev", device, "nud", "permanent")


def piped(*command: str, stdin: bytes = b"") -> bytes:
    """Runs a command that must succeed. Returns its output."""
    done = subprocess.run(command, input=stdin, capture_output=True)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr.decode()}"
    return done.stdout


def pem(base64_text: bytes) -> bytes:
    """A certificate of `byname key` in the form of ndnd."""
    return piped(NDND, "sec", "pem-encode", stdin=base64.b64decode(base64_text))


def keys_for(directory: Path, kinds: list[str], names: list[str], bound: list[str]) -> Path:
    """Folders with keys of these routers, by one anchor. Routers of ndnd have keys that ndnd has made; their certificates
    bind these prefixes."""
    folder, anchor = directory / "keys", ("--folder", str(directory / "anchor"))
    key = (str(binary()), "key", *anchor)
    piped(*key, "anchor", NETWORK)
    ours = [name for name, kind in zip(names, kinds) if kind == "byname"]
    if ours:
        piped(*key, "network", NETWORK, *ours, "--out", str(folder))
    for name in [name for name, kind in zip(names, kinds) if kind == "ndnd"]:
        own = folder / name
        own.mkdir(parents=True)
        secret, request = own / "router.key", directory / f"{name}.request"
        secret.write_bytes(piped(NDND, "sec", "keygen", f"{NETWORK}/{name}/32=DV", "ed25519"))
        request.write_bytes(piped(NDND, "sec", "sign-cert", str(secret), stdin=secret.read_bytes()))
        announce = [word for prefix in bound for word in ("--announce", prefix)]
        (own / "router.cert").write_bytes(pem(piped(*key, "sign", str(request), *announce)))
        (own / "anchor.cert").write_bytes(pem(piped(*key, "show", NETWORK, "--certificate")))
    (directory / "anchor.ndncert").write_bytes(piped(*key, "show", NETWORK, "--certificate"))
    for kind, name in zip(kinds, names):
        if kind in HOSTS:
            keys_of_host(directory, kind, name)
    return folder


def keys_of_host(directory: Path, kind: str, name: str) -> None:
    """The folder `keys/NAME` with the key of a host, and with the certificates of its chain."""
    folder, key = directory / "keys" / name, (str(binary()), "key", "--folder")
    if kind == "stranger":
        piped(*key, str(folder), "anchor", f"{NETWORK}/{name}")
        return
    request, signed = directory / f"{name}.request", directory / f"{name}.ndncert"
    request.write_bytes(piped(*key, str(folder), "request", f"{NETWORK}/{name}"))
    signer = [NETWORK]
    if kind == "issued":
        issuer = f"{NETWORK}/{name}-issuer"
        piped(*key, str(directory / "anchor"), "make", issuer)
        (folder / "issuer.ndncert").write_bytes(piped(*key, str(directory / "anchor"), "show", issuer, "--certificate"))
        signer = [issuer, "--outside"]
    signed.write_bytes(piped(*key, str(directory / "anchor"), "sign", str(request), "--signer", *signer))
    piped(*key, str(folder), "install", str(signed))


@contextlib.contextmanager
def network(
    directory: Path, kinds: list[str], edges: list[tuple[int, int]], with_keys: bool = False,
    cut: tuple[int, int] | None = None, extra_config: str = "", announced: tuple[int, str] | None = None,
    bound: list[str] | None = None, routing: str | list[str] = "", caches: bool = True,
) -> Iterator[Network]:
    """Routers of these kinds, `byname`, `ndnd` or `nlsr`, with a link for each edge. The first end of an edge names the other.
    The kinds `host`, `stranger` and `issued` are no routers: each has one edge, which names its hub, and needs keys. The
    anchor has signed the key of a `host`, nobody that of a `stranger`, and another host that of an `issued` one. Anchors are
    in the folder's `anchor.ndncert`.

    The link `cut` is down when the routers start. `extra_config` is for byname's; in it, `{name}` is a router's name. `announced` is a prefix that a router of
    NLSR announces by its configuration; others hear of prefixes from applications. The certificates of ndnd's routers bind
    the prefixes `bound`. `routing` are further settings of byname's routing, of all or of each. Without `caches`, no router
    answers from its store.
    """
    spaces = [f"bnet-{os.getpid()}-{i}" for i in range(len(kinds))]
    with contextlib.ExitStack() as stack:
        routers: list[AnyRouter] = []
        names = [f"{kind[0]}{i}" for i, kind in enumerate(kinds)]
        keys = keys_for(directory, kinds, names, bound or []) if with_keys else None
        settings = [routing] * len(kinds) if isinstance(routing, str) else routing
        for kind, name, space, setting in zip(kinds, names, spaces, settings):
            _ip("netns", "add", space)
            stack.callback(_ip, "netns", "del", space)
            _ip("-n", space, "link", "set", "lo", "up")
            if kind == "nlsr":
                routers.append(NlsrRouter(directory, name=name, netns=space))
            elif kind == "ndnd":
                routers.append(NdndRouter(directory, name, space))
                routers[-1].caches = caches
            elif kind in HOSTS:
                routers.append(EndHost(directory, name=name, netns=space))
            else:
                config = extra_config.replace("{name}", name) + ("" if caches else "[tables]\ncs_serve = false\n")
                env = {"STATE_DIRECTORY": str(directory / f"{name}-state")}
                routers.append(BynameRouter(directory, name=name, netns=space, extra_config=config, env=env))
                routers[-1].routing = setting
            routers[-1].keys = keys / name if keys else None
        made = Network(routers)
        for number, (near, far) in enumerate(edges):
            ends = ((near, f"to{far}", 1), (far, f"to{near}", 2))
            _ip("-n", spaces[near], "link", "add", f"to{far}", "type", "veth", "peer", "name", f"to{near}",
                "netns", spaces[far])
            for router, device, host in ends:
                _ip("-n", spaces[router], "addr", "add", f"10.77.{number}.{host}/30", "dev", device)
                _ip("-n", spaces[router], "link", "set", device, "up")
            made.links[near, far] = (spaces[near], f"to{far}", f"10.77.{number}.2")
            made.links[far, near] = (spaces[far], f"to{near}", f"10.77.{number}.1")
            routers[near].neighbours.append(f"udp://10.77.{number}.2:{routers[far].port}")
            # NLSR's routers make no faces, and both ends name each other.
            for router, (other, host) in ((routers[near], (far, 2)), (routers[far], (near, 1))):
                if isinstance(router, NlsrRouter):
                    router.peers.append((names[other], f"udp4://10.77.{number}.{host}:{routers[other].port}"))
        if announced:
            (number, prefix) = announced
            if isinstance(routers[number], NlsrRouter):
                routers[number].announced.append(prefix)
        if cut:
            made.set_link(*cut, up=False)
        for router in routers:
            stack.enter_context(router)
        yield made


@contextlib.contextmanager
def client(router: AnyRouter, *command: str, stdin: Path | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a client beside a router until the end of the block."""
    with contextlib.ExitStack() as stack:
        log = stack.enter_context((router.directory / f"{router.name}-{Path(command[0]).name}.log").open("wb"))
        source = stack.enter_context(stdin.open("rb")) if stdin else subprocess.DEVNULL
        process = subprocess.Popen(command, env=environment(router), stdin=source, stdout=log, stderr=log)
        try:
            yield process
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def environment(router: AnyRouter) -> dict[str, str]:
    return {**os.environ, "HOME": str(router.directory), "NDN_CLIENT_TRANSPORT": router.unix}


def run(router: AnyRouter, *command: str, timeout: float = 60) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        command, env=environment(router), stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout,
    )


def answers(router: AnyRouter, prefix: str) -> bool:
    """Whether one ping is answered."""
    return run(router, str(binary()), "ping", prefix, "-c", "1", "--timeout", "300").returncode == 0
