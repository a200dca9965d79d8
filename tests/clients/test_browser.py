"""The page of docs/browsers.md, with NDNts in headless Chromium, over each encrypted transport."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from router import ROOT, Router, binary, free_ports

OWN_CONFIGURATION = True
BYTES = 10_000_000
HERE = Path(__file__).resolve().parent
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome") or ""

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="no Chromium (Debian: apt install chromium)")


@contextlib.contextmanager
def publishes(router: Router, name: str, path: Path, *more: str) -> Iterator[None]:
    process = subprocess.Popen(
        [str(binary()), "put", name, str(path), *more], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        env={**os.environ, "HOME": str(router.directory), "NDN_CLIENT_TRANSPORT": router.unix},
    )
    try:
        while router.cli("route", "show", name, check=False).returncode != 0:
            assert process.poll() is None, f"byname put {name} has ended"
        yield
    finally:
        process.kill()
        process.wait()


class Page:
    """The page, and a router with a certificate that it has made itself."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.wss, self.quic = free_ports(2)
        self.router = Router(directory, extra_config=(
            f"[faces.wss]\nlisten = true\nport = {self.wss}\n[faces.quic]\nlisten = true\nport = {self.quic}\n"
        ))
        document = (ROOT / "docs/browsers.md").read_text()
        for name, text in re.findall(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```\n", document, re.DOTALL):
            (directory / name).write_text(text)

    def certificate(self) -> dict[str, str]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.router.metrics_port}/certificate", timeout=5) as answer:
            return json.load(answer)

    def opens(self, name: str, **settings: str) -> dict[str, str]:
        """Opens the page, and asks it for an object. Returns what it said."""
        shown = json.loads((self.directory / "router.json").read_text())
        assert {"webtransport", "websocket", "list", "sha256"} == set(shown), "the document has all settings"
        chosen = {**dict.fromkeys(shown, ""), "list": "/example/list", **settings}
        (self.directory / "router.json").write_text(json.dumps(chosen))
        done = subprocess.run(
            ["node", "--no-warnings", str(HERE / "ndnts/browser.mjs"), str(self.directory), name],
            capture_output=True, text=True, timeout=120, env={**os.environ, "CHROMIUM": CHROMIUM, "NODE_OPTIONS": ""},
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


def test_a_page_fetches_10_mb_over_each_transport(directory: Path) -> None:
    page = Page(directory)
    raw = os.urandom(BYTES)
    (directory / "file").write_bytes(raw)
    (directory / "list").write_text("/example/file\n")
    webtransport = f"https://127.0.0.1:{page.quic}/ndn"
    with page.router, publishes(page.router, "/example/file", directory / "file"), \
            publishes(page.router, "/example/list", directory / "list"):
        for over, settings in {
            "WebTransport": {"webtransport": webtransport, "sha256": page.certificate()["sha256"]},
            "WebSocket": {"websocket": f"wss://127.0.0.1:{page.wss}/"},
        }.items():
            said = page.opens("/example/file", **settings)
            assert said["connected"] == f"connected over {over}", f"{said}\n{page.router.log()}"
            assert said["sha256"] == hashlib.sha256(raw).hexdigest(), f"{said}\n{page.router.log()}"
            print(over, said["done"])
        wrong = page.opens("/example/file", webtransport=webtransport, sha256="A" * 43 + "=")
        assert not wrong["connected"].startswith("connected"), wrong
