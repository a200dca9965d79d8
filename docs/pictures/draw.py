#!/usr/bin/env python3
"""Draws the guide's pictures into this folder, one SVG for each function below. With --check, only compares them.

The pictures follow the reader's choice of light or dark.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from xml.sax.saxutils import escape

FOLDER = Path(__file__).parent
LIGHT = {
    "line": "#57606a", "text": "#1f2328", "faint": "#59636e", "box": "#f6f8fa", "ask": "#0969da", "answer": "#1a7f37",
    "store": "#fff3d6", "store-line": "#9a6700", "bad": "#cf222e", "good": "#dafbe1", "new": "#ddf4ff",
}
DARK = {
    "line": "#9198a1", "text": "#f0f6fc", "faint": "#a5acb5", "box": "#20262e", "ask": "#58a6ff", "answer": "#56d364",
    "store": "#3a2d0a", "store-line": "#d8a53a", "bad": "#ff7b72", "good": "#12361f", "new": "#0c2d4d",
}
COLORS = """text { fill: TEXT } .small { fill: FAINT } .ask-text { fill: ASK } .answer-text { fill: ANSWER }
.box { fill: BOX; stroke: LINE } .store { fill: STORE; stroke: STORE-LINE } .good { fill: GOOD; stroke: ANSWER }
.new { fill: NEW; stroke: ASK } .gone { fill: none; stroke: LINE } .line { stroke: LINE } .ask { stroke: ASK }
.answer { stroke: ANSWER } .fill-line { fill: LINE } .fill-ask { fill: ASK } .fill-answer { fill: ANSWER }"""


def in_colors(colors: dict[str, str]) -> str:
    """The rules for colours. Longer words first: one word begins another."""
    rules = COLORS
    for word in sorted(colors, key=len, reverse=True):
        rules = rules.replace(f" {word.upper()} ", f" {colors[word]} ").replace(f" {word.upper()};", f" {colors[word]};")
    return rules


STYLE = f"""
text {{ font: 15px system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif }} .small {{ font-size: 13px }}
.code {{ font: 13px ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace }} .strong {{ font-weight: 600 }}
.line, .ask, .answer {{ fill: none; stroke-width: 2 }} .dashed {{ stroke-dasharray: 5 5 }} .gone {{ stroke-dasharray: 4 4 }}
{in_colors(LIGHT)}
@media (prefers-color-scheme: dark) {{ {in_colors(DARK)} }}
"""
LINE_HEIGHT = 19


class Picture:
    """Shapes, and what they say to those who do not see them."""

    def __init__(self, width: int, height: int, says: str) -> None:
        self.width, self.height, self.says = width, height, says
        self.shapes: list[str] = []

    def text(self, x: float, y: float, text: str, kind: str = "", anchor: str = "middle") -> None:
        self.shapes.append(f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" class="{kind}">{escape(text)}</text>')

    def box(self, x: float, y: float, w: float, h: float, *lines: str, kind: str = "box", text: str = "small") -> None:
        """A box with lines of text in its middle; the first is strong."""
        self.shapes.append(f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="8" class="{kind}"/>')
        top = y + h / 2 - (len(lines) - 1) * LINE_HEIGHT / 2 + 5
        for at, line in enumerate(lines):
            self.text(x + w / 2, top + at * LINE_HEIGHT, line, text if at else "strong")

    def line(self, *points: tuple[float, float], kind: str = "line") -> None:
        places = " ".join(f"{x:g},{y:g}" for x, y in points)
        self.shapes.append(f'<polyline points="{places}" class="{kind}"/>')

    def arrow(self, *points: tuple[float, float], kind: str = "line") -> None:
        """A line with a head at its last point."""
        (x1, y1), (x2, y2) = points[-2:]
        length = ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5
        dx, dy = (x2 - x1) / length * 9, (y2 - y1) / length * 9
        self.line(*points[:-1], (x2 - dx, y2 - dy), kind=kind)
        head = f"{x2:g},{y2:g} {x2 - dx - dy / 2:.4g},{y2 - dy + dx / 2:.4g} {x2 - dx + dy / 2:.4g},{y2 - dy - dx / 2:.4g}"
        self.shapes.append(f'<polygon points="{head}" class="fill-{kind.split()[0]}"/>')

    def dot(self, x: float, y: float, r: float, kind: str) -> None:
        self.shapes.append(f'<circle cx="{x:g}" cy="{y:g}" r="{r:g}" class="{kind}"/>')

    def svg(self) -> str:
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{self.width}" '
            f'height="{self.height}" role="img" aria-label="{escape(self.says)}">'
        )
        return "\n".join([head, f"<style>{STYLE}</style>", *self.shapes, "</svg>"]) + "\n"


def address_and_name() -> Picture:
    p = Picture(760, 300, "With addresses, everybody asks one machine. With names, the nearest copy answers.")
    for left, title in ((0, "Ask a machine"), (390, "Ask for a thing")):
        p.text(left + 185, 24, title, "strong")
        for at in range(3):
            p.box(left + 10, 50 + at * 80, 90, 50, "reader")
    p.box(290, 130, 80, 50, "server", kind="good")
    for at in range(3):
        p.arrow((100, 75 + at * 80), (288, 155), kind="ask")
    p.text(195, 286, "192.0.2.7, are you there?", "code")
    p.box(540, 130, 90, 50, "router", "has a copy", kind="store")
    p.box(670, 130, 80, 50, "author", kind="good")
    for at in range(3):
        p.arrow((490, 75 + at * 80), (538, 155), kind="ask")
    p.arrow((630, 148), (668, 148), kind="ask")
    p.arrow((670, 164), (632, 164), kind="answer")
    p.text(650, 120, "once", "small")
    p.text(575, 286, "Who has /radio/news/today?", "code")
    return p


def exchange() -> Picture:
    p = Picture(760, 330, "An Interest goes to the producer, and leaves a note in each router. The Data follows the notes back.")
    names, places = ("reader", "router A", "router B", "author"), (10, 210, 410, 620)
    for name, x in zip(names, places):
        p.box(x, 110, 130, 56, name, kind="good" if name == "author" else "box")
    for at in range(3):
        right, left = places[at] + 130, places[at + 1]
        p.arrow((right, 126), (left - 2, 126), kind="ask")
        p.arrow((left, 150), (right + 2, 150), kind="answer")
    p.text(380, 40, "Interest: “/radio/news/today, please”", "ask-text strong")
    p.text(380, 62, "goes towards the author, by the longest matching rule in each router", "small")
    p.text(380, 296, "Data: “/radio/news/today is …”, signed by the author", "answer-text strong")
    p.text(380, 318, "goes back along the notes, and stays in each router for the next reader", "small")
    for x, came in ((210, "from the reader"), (410, "from router A")):
        p.line((x + 65, 166), (x + 65, 186))
        p.box(x - 20, 186, 170, 72, "note (PIT)", came, "copy (content store)", kind="store")
    return p


def tables() -> Picture:
    p = Picture(760, 360, "A router asks its content store, its PIT and its FIB, in this order.")
    p.box(10, 40, 120, 56, "Interest", "/a/b/c", kind="new")
    steps = ((190, "Content store", "have I a copy?"), (390, "PIT", "asked already?"), (590, "FIB", "which way?"))
    for x, name, question in steps:
        p.box(x, 40, 150, 56, name, question, kind="store")
    p.arrow((130, 68), (188, 68), kind="ask")
    p.arrow((340, 68), (388, 68), kind="ask")
    p.arrow((540, 68), (588, 68), kind="ask")
    p.text(364, 58, "no", "small")
    p.text(564, 58, "no", "small")
    p.arrow((265, 96), (265, 158), kind="answer")
    p.text(285, 130, "yes", "small")
    p.box(190, 160, 150, 56, "answer at once", "Data", kind="good")
    p.arrow((465, 96), (465, 158))
    p.text(485, 130, "yes", "small")
    p.box(390, 160, 150, 56, "wait with the other", "one Data serves both")
    p.arrow((665, 96), (665, 158), kind="ask")
    p.box(590, 160, 150, 56, "strategy", "chooses a nexthop", kind="new")
    p.arrow((665, 216), (665, 278), kind="ask")
    p.box(590, 280, 150, 56, "to the next router", "Interest", kind="new")
    p.box(10, 280, 120, 56, "Data", "/a/b/c", kind="good")
    p.arrow((130, 308), (388, 308), kind="answer")
    p.box(390, 280, 150, 56, "PIT: who asked?", "and keep a copy", kind="store")
    p.text(260, 298, "comes back, finds the notes", "small")
    p.arrow((465, 280), (465, 250), (230, 250), (230, 218), kind="answer")
    return p


def lab() -> Picture:
    p = Picture(760, 190, "Five routers in a row: r1 has the reader, r5 has the author.")
    for at in range(5):
        x = 20 + at * 150
        p.box(x, 80, 100, 54, f"r{at + 1}", f"UDP 127.0.0.{at + 1}")
        if at < 4:
            p.arrow((x + 100, 98), (x + 148, 98), kind="ask")
            p.arrow((x + 150, 118), (x + 102, 118), kind="answer")
    p.text(70, 40, "byname ping /lab/far", "code")
    p.line((70, 50), (70, 78), kind="line dashed")
    p.text(670, 40, "byname ping-server", "code")
    p.line((670, 50), (670, 78), kind="line dashed")
    p.text(380, 170, "each router knows one way for /lab: to its right", "small")
    return p


def chain() -> Picture:
    p = Picture(760, 210, "The anchor signs Alice's key, Alice's key signs a command, and the router follows the chain back.")
    p.box(10, 60, 170, 64, "trust anchor", "/example, signs itself", kind="good")
    p.box(290, 60, 170, 64, "Alice's key", "/example/alice")
    p.box(570, 60, 180, 64, "command", "register /example/alice", kind="new")
    p.arrow((180, 92), (288, 92))
    p.arrow((460, 92), (568, 92))
    p.text(234, 82, "signs", "small")
    p.text(514, 82, "signs", "small")
    p.arrow((660, 124), (660, 168), (95, 168), (95, 126), kind="ask")
    p.text(380, 190, "the router follows the chain: does it end at an anchor that I know?", "small")
    return p


def tags() -> Picture:
    p = Picture(760, 300, "A packet with three tags reaches those who asked for a subset of them.")
    p.box(10, 110, 200, 74, "packet", "{berlin, classical, concert}", kind="new")
    p.box(290, 116, 110, 62, "router")
    p.arrow((210, 147), (288, 147), kind="ask")
    wishes = ((20, "alice", "{classical, concert}", True), (90, "bob", "{concert}", True), (160, "carol", "{jazz, concert}", False),
              (230, "dave", "{}", True))
    for y, name, wish, reached in wishes:
        p.box(520, y, 230, 52, name, wish, kind="good" if reached else "gone")
        if reached:
            p.arrow((400, 147), (518, y + 26), kind="answer")
    p.text(345, 210, "subset?", "small")
    p.text(345, 286, "jazz is not in the packet, so carol is left in peace", "small")
    return p


def tree() -> Picture:
    p = Picture(760, 330, "A label is the way from the root of a tree. A router compares labels, and needs no table.")
    places = {"": (330, 30), "1": (150, 130), "2": (510, 130), "1.1": (60, 230), "1.2": (240, 230), "2.1": (510, 230)}
    for label, (x, y) in places.items():
        if label:
            parent = places[label.rpartition(".")[0]]
            p.line((parent[0] + 50, parent[1] + 25), (x + 50, y + 25))
    for label, (x, y) in places.items():
        kind = "new" if label == "1.2" else "good" if label == "2.1" else "box"
        p.box(x, y, 100, 50, label or "root", kind=kind)
    p.arrow((290, 228), (262, 190), (385, 92), (498, 165), (498, 200), (530, 228), kind="answer")
    p.text(380, 312, "from 1.2 to 2.1: up while the beginnings differ, then down by the numbers", "small")
    return p


def flat() -> Picture:
    p = Picture(760, 230, "A flat table keeps no addresses. Two patterns of bits give the port.")
    p.box(10, 80, 160, 60, "address", "08:00:27:01:02:03", kind="new", text="code")
    p.arrow((170, 96), (288, 66), kind="ask")
    p.arrow((170, 124), (288, 154), kind="ask")
    p.text(222, 62, "hash 1", "small")
    p.text(222, 166, "hash 2", "small")
    for y, cells in ((42, "0110"), (130, "0011")):
        for at in range(6):
            p.box(290 + at * 50, y, 46, 44, cells if at == 3 else "····", kind="store" if at == 3 else "box")
    p.arrow((463, 86), (463, 100), (630, 100), kind="answer")
    p.arrow((463, 130), (463, 114), (630, 114), kind="answer")
    p.box(632, 78, 118, 60, "port 5", "0110 xor 0011", kind="good", text="code")
    p.text(380, 212, "no address is stored, so each host costs a few bytes, whatever its name is", "small")
    return p


def binary_search() -> Picture:
    p = Picture(760, 320, "The search for the longest rule of a name with eight components begins in the middle.")
    parts = ["/a", "/b", "/c", "/d", "/e", "/f", "/g", "/h"]
    for at, part in enumerate(parts):
        p.box(20 + at * 90, 40, 84, 44, part, kind="good" if at < 5 else "box")
    p.text(20 + 4 * 90 + 42, 26, "the longest rule is /a/b/c/d/e", "answer-text strong")
    probes = ((3, 120, "1: depth 4", "there: go deeper"), (5, 180, "2: depth 6", "nothing: go back"),
              (4, 240, "3: depth 5", "here it is"))
    for at, y, name, says in probes:
        x = 20 + at * 90
        p.line((x + 42, 84), (x + 42, y), kind="line dashed")
        p.box(x - 28, y, 140, 46, name, says, kind="store" if at != 4 else "good")
    p.text(380, 308, "three probes, and not eight: the number grows with the logarithm of the depth", "small")
    return p


def burst() -> Picture:
    p = Picture(760, 290, "One by one, each packet waits for memory. In a burst, the waits overlap.")
    p.text(20, 30, "one by one", "strong", "start")
    for at in range(4):
        x, y = 20 + at * 170, 44 + at * 20
        p.shapes.append(f'<rect x="{x}" y="{y}" width="130" height="16" class="gone"/>')
        p.shapes.append(f'<rect x="{x + 130}" y="{y}" width="36" height="16" class="good"/>')
    p.text(20, 160, "in a burst", "strong", "start")
    for at in range(4):
        x, y = 20 + at * 36, 174 + at * 20
        p.shapes.append(f'<rect x="{x}" y="{y}" width="130" height="16" class="gone"/>')
        p.shapes.append(f'<rect x="{x + 130}" y="{y}" width="36" height="16" class="good"/>')
    p.arrow((20, 262), (740, 262))
    p.text(736, 282, "time", "small", "end")
    p.shapes.append('<rect x="400" y="180" width="40" height="16" class="gone"/>')
    p.text(450, 193, "waits for memory", "small", "start")
    p.shapes.append('<rect x="400" y="210" width="40" height="16" class="good"/>')
    p.text(450, 223, "works", "small", "start")
    return p


def threads() -> Picture:
    p = Picture(760, 330, "Each packet thread owns faces and a shard. A packet whose name is at home elsewhere crosses one ring.")
    for at, name in enumerate(("thread 0", "thread 1")):
        x = 40 + at * 430
        p.box(x, 20, 250, 290, kind="gone")
        p.text(x + 125, 44, name, "strong")
        p.box(x + 20, 60, 210, 56, "its faces", "sockets, rings, links")
        p.box(x + 20, 146, 210, 56, "its shard", "PIT and content store", kind="store")
        p.box(x + 20, 232, 210, 56, "FIB", "shared, read without locks", kind="good")
        p.arrow((x + 125, 116), (x + 125, 144), kind="ask")
        p.arrow((x + 125, 202), (x + 125, 230), kind="ask")
    p.arrow((270, 164), (488, 164), kind="ask")
    p.arrow((490, 186), (272, 186), kind="answer")
    p.text(380, 150, "ring: not at home here", "small")
    return p


PICTURES: list[Callable[[], Picture]] = [
    address_and_name, exchange, tables, lab, chain, tags, tree, flat, binary_search, burst, threads,
]


def main() -> None:
    stale = []
    for draw in PICTURES:
        path, svg = FOLDER / f"{draw.__name__.replace('_', '-')}.svg", draw().svg()
        if "--check" not in sys.argv:
            path.write_text(svg)
        elif not path.exists() or path.read_text() != svg:
            stale.append(path.name)
    if stale:
        sys.exit(f"not what {__file__} draws: {', '.join(stale)}; run it")


if __name__ == "__main__":
    main()
