#!/usr/bin/env python3
"""Records a session with byname, and draws it as docs/session.svg:

    sudo docs/pictures/session.py target/release/byname

The commands are run as a reader would, on terminals of their own, in a network of their own. Needs root, for the latter.
"""

import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import time
from fcntl import ioctl
from pathlib import Path
from termios import TIOCSWINSZ
from xml.sax.saxutils import escape

FILE = Path(__file__).parent.parent / "session.svg"
COLUMNS = 100
ROWS = 50
PATIENCE_S = 30

# Commands, and what each prints when the next may begin; None: its end. What those with `&` print is not shown.
SESSION = [
    ("byname run", "Try next"),
    ("byname ping-server /demo &", "PING SERVER"),
    ("byname put /demo/song song.ogg &", "serving"),
    ("byname ping /demo -c 2 -i 100", None),
    ("byname get /demo/song -o copy.ogg", None),
    ("byname route list", None),
    ("byname route get /demo/song", None),
]
FONT = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"
CELL, LINE, EDGE, TOP = 8.43, 19, 20, 54
# Colours of SGR codes 30 to 37, and 90 to 97.
COLORS = ["#484f58", "#ff7b72", "#7ee787", "#e3b341", "#79c0ff", "#d2a8ff", "#76e3ea", "#c9d1d9"]
ESCAPE = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])")


class Screen:
    """Lines of cells, each a character and its style. Understands what command-line programs write."""

    def __init__(self) -> None:
        self.lines: list[list[tuple[str, str]]] = [[]]
        self.row = self.column = 0
        self.style = ""

    def write(self, text: str) -> None:
        while text:
            if found := ESCAPE.match(text):
                self.obey(found.group(2), found.group(1))
                text = text[found.end():]
                continue
            self.put(text[0])
            text = text[1:]

    def put(self, c: str) -> None:
        if c == "\n":
            self.row += 1
            self.column = 0
            while len(self.lines) <= self.row:
                self.lines.append([])
        elif c == "\r":
            self.column = 0
        elif c >= " ":
            line = self.lines[self.row]
            line += [(" ", "")] * (self.column + 1 - len(line))
            line[self.column] = (c, self.style)
            self.column += 1

    def obey(self, command: str, numbers: str) -> None:
        if command == "m":
            for number in [int(n or 0) for n in numbers.split(";")]:
                self.style = self.styled(number)
        elif command == "K":
            del self.lines[self.row][0 if numbers == "2" else self.column:]
        elif command == "A":
            self.row = max(0, self.row - int(numbers or 1))

    def styled(self, number: int) -> str:
        if number == 1:
            return self.style + ' font-weight="bold"'
        if number == 2:
            return self.style + ' opacity="0.65"'
        if 30 <= number % 60 <= 37 and number < 98:
            return re.sub(' fill="[^"]*"', "", self.style) + f' fill="{COLORS[number % 60 - 30]}"'
        return ""

    def svg(self, at: int) -> list[str]:
        drawn = []
        for number, line in enumerate(self.lines):
            runs: list[list[str]] = []
            for c, style in line:
                if not runs or runs[-1][1] != style:
                    runs.append(["", style])
                runs[-1][0] += c
            spans = "".join(f"<tspan{style}>{escape(text)}</tspan>" if style else escape(text) for text, style in runs)
            if spans.strip():
                drawn.append(f'<text x="{EDGE}" y="{TOP + (at + number) * LINE}">{spans}</text>')
        return drawn


def run(command: str, until: str | None, folder: Path) -> tuple[Screen, int | None]:
    """Runs a command on a terminal. Returns what the terminal shows, and the process if it goes on."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execvp("bash", ["bash", "-c", f"exec {command}"])
    ioctl(terminal, TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    text, deadline, told_at = "", time.monotonic() + PATIENCE_S, None
    while True:
        if time.monotonic() > deadline:
            sys.exit(f"{command}: no end\n{text}")
        if select.select([terminal], [], [], 0.05)[0]:
            try:
                text += os.read(terminal, 65536).decode()
            except OSError:
                break
        if until and until in text:
            told_at = told_at or time.monotonic()
            # The rest of what it says at its start.
            if time.monotonic() > told_at + 0.5:
                break
    screen = Screen()
    screen.write(text)
    while screen.lines and not screen.lines[-1]:
        screen.lines.pop()
    if until:
        return screen, pid
    os.waitpid(pid, 0)
    return screen, None


def record(folder: Path) -> str:
    (folder / "song.ogg").write_bytes(os.urandom(25_000_000))
    drawn, at, servers = [], 0, []
    for command, until in SESSION:
        screen, server = run(command.removesuffix(" &"), until, folder)
        servers += [server] if server else []
        prompt = f'<tspan fill="#7ee787">$</tspan> <tspan fill="#ffffff" font-weight="bold">{escape(command)}</tspan>'
        drawn.append(f'<text x="{EDGE}" y="{TOP + at * LINE}">{prompt}</text>')
        if command.endswith("&"):
            at += 1
            continue
        drawn += screen.svg(at + 1)
        at += len(screen.lines) + 2
    for server in reversed(servers):
        os.kill(server, signal.SIGINT)
    width, height = int(2 * EDGE + COLUMNS * CELL), TOP + (at - 1) * LINE
    lights = "".join(f'<circle cx="{x}" cy="20" r="6" fill="{fill}"/>' for x, fill in ((22, "#ff5f57"), (42, "#febc2e"), (62, "#28c840")))
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        'aria-label="A session: byname runs, answers pings and serves a file">',
        "<style>text{white-space:pre}</style>",
        f'<rect width="{width}" height="{height}" rx="10" fill="#1b1f27"/>', lights,
        f'<g font-family="{FONT}" font-size="14" xml:space="preserve" fill="#c9d1d9">', *drawn, "</g>", "</svg>",
    ]) + "\n"


def main() -> None:
    if os.environ.get("BYNAME_SESSION") != "apart":
        program = Path(sys.argv[1] if len(sys.argv) == 2 else sys.exit(__doc__)).resolve(strict=True)
        environment = {**os.environ, "BYNAME_SESSION": "apart"}
        apart = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, __file__]
        sys.exit(subprocess.run([*apart, str(program)], env=environment).returncode)
    for folder in ("/run", "/var/lib"):
        subprocess.run(["mount", "-t", "tmpfs", "none", folder], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "bin").mkdir()
        (folder / "bin/byname").symlink_to(sys.argv[1])
        os.environ.update(
            PATH=f"{folder}/bin:{os.environ['PATH']}", HOME=name, TERM="xterm-256color", RUST_LOG="off",
        )
        for variable in ("NDN_CLIENT_TRANSPORT", "STATE_DIRECTORY"):
            os.environ.pop(variable, None)
        FILE.write_text(record(folder))


if __name__ == "__main__":
    main()
