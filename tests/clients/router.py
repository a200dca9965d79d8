"""A byname process under test."""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import socket
import subprocess
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[2]

# Number of packet threads of each router without its own number; set by `pytest --threads`.
threads_of_all = 1


def binary() -> Path:
    """The byname under test: $BYNAME_BIN, else the release build, else the debug build."""
    named = os.environ.get("BYNAME_BIN")
    if named:
        return Path(named).resolve()
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    for profile in ("release", "debug"):
        if (target / profile / "byname").exists():
            return target / profile / "byname"
    raise FileNotFoundError("no byname to test: run `cargo build --release -p byname` or set BYNAME_BIN")


def free_ports(count: int) -> list[int]:
    """Ports that are free now for TCP and UDP, outside the kernel's ephemeral range."""
    ports: list[int] = []
    while len(ports) < count:
        port = random.randrange(10_000, 32_000)
        if port in ports:
            continue
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as tcp, \
                socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            with contextlib.suppress(OSError):
                tcp.bind(("", port))
                udp.bind(("", port))
                ports.append(port)
    return ports


@dataclass
class Router:
    """One `byname run`, with its own configuration, ports and directory."""

    directory: Path
    name: str = "router"
    extra_config: str = ""
    udp_options: str = ""
    anchors: str = ""
    netns: str | None = None
    host: str = "127.0.0.1"
    env: dict[str, str] = field(default_factory=dict)
    threads: int | None = None

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.threads = threads_of_all if self.threads is None else self.threads
        self.port, self.ws_port, self.metrics_port = free_ports(3)
        self.socket_path = self.directory / f"{self.name}.sock"
        self.config_path = self.directory / f"{self.name}.toml"
        self.log_path = self.directory / f"{self.name}.log"
        self.process: subprocess.Popen[bytes] | None = None

    # Addresses for clients, as in NDN_CLIENT_TRANSPORT.

    @property
    def unix(self) -> str:
        return f"unix://{self.socket_path}"

    @property
    def udp(self) -> str:
        return f"udp://{self.host}:{self.port}"

    @property
    def tcp(self) -> str:
        return f"tcp://{self.host}:{self.port}"

    @property
    def ws(self) -> str:
        return f"ws://{self.host}:{self.ws_port}/"

    def uplink(self, transport: str) -> str:
        return getattr(self, transport)

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def usage(self) -> psutil.Process:
        return psutil.Process(self.pid)

    # Start and end

    def config(self) -> str:
        return CONFIG.format(router=self) + "\n" + self.extra_config

    def start(self, wait_s: float = 10.0) -> "Router":
        self.config_path.write_text(self.config())
        command = [str(binary()), "run", "--config", str(self.config_path)]
        if self.netns:
            command = ["ip", "netns", "exec", self.netns, *command]
        log = self.log_path.open("wb")
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            env={
                **os.environ, "HOME": str(self.directory), "STATE_DIRECTORY": str(self.directory / "state"),
                "RUST_BACKTRACE": "1", **self.env,
            },
        )
        log.close()
        self._wait_ready(wait_s)
        return self

    def _wait_ready(self, wait_s: float) -> None:
        deadline = time.monotonic() + wait_s
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise RuntimeError(f"{self.name} ended with {self.process.returncode}:\n{self.log()}")
            # The router prints its start-up table after it has opened all ports.
            if f"(process {self.process.pid})" in self.log():
                return
            time.sleep(0.02)
        raise TimeoutError(f"{self.name} does not listen after {wait_s} s:\n{self.log()}")

    def stop(self, wait_s: float = 10.0) -> int:
        """Sends SIGTERM, as systemd does. Returns the exit status."""
        if self.process is None:
            return 0
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(wait_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise

    def log(self) -> str:
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def __enter__(self) -> "Router":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    # Status

    def cli(self, *args: str, check: bool = True, timeout: float = 60, **kwargs) -> subprocess.CompletedProcess[str]:
        """Runs a byname command against this router, over its Unix socket."""
        result = subprocess.run(
            [str(binary()), *args], text=True, capture_output=True, timeout=timeout, stdin=subprocess.DEVNULL,
            env={**os.environ, "HOME": str(self.directory), "NDN_CLIENT_TRANSPORT": self.unix}, **kwargs,
        )
        if check and result.returncode != 0:
            raise AssertionError(f"byname {' '.join(args)}: {result.returncode}\n{result.stdout}\n{result.stderr}")
        return result

    def metrics(self) -> dict[str, float]:
        """The Prometheus metrics, keyed by name with labels."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=5) as answer:
            text = answer.read().decode()
        samples: dict[str, float] = {}
        for line in text.splitlines():
            if match := re.fullmatch(r"([a-zA-Z_:][\w:]*(?:\{.*\})?)\s+(\S+)(?:\s+\d+)?", line):
                samples[match[1]] = float(match[2])
        return samples

    def metric(self, pattern: str) -> float:
        """The sum of all metrics whose name and labels match."""
        return sum(value for name, value in self.metrics().items() if re.search(pattern, name))


CONFIG = """\
[threads]
count = {router.threads}

[faces.unix]
path = "{router.socket_path}"

[faces.udp]
port = {router.port}
{router.udp_options}

[faces.tcp]
port = {router.port}

[faces.websocket]
port = {router.ws_port}

[rib]
localhop_anchors = [{router.anchors}]

[metrics]
listen = "127.0.0.1:{router.metrics_port}"
"""
