#!/usr/bin/env python3
"""Writes the first inputs from the packet vectors to fuzz/corpus/TARGET/vector-N."""

import pathlib

HERE = pathlib.Path(__file__).resolve().parent
VECTORS = HERE.parent / "crates/wire/tests/vectors"
# The vector files of each target.
TARGETS = {
    "tlv": ["interest", "data", "lp", "name"],
    "name_uri": ["name"],
    "interest": ["interest"],
    "data": ["data"],
    "lp": ["lp", "interest", "data"],
    "signature": [],
    "tagnet": ["tagnet"],
}


def vectors(name):
    """Yields the bytes and the expectation of each vector."""
    wire = ""
    for line in (VECTORS / f"{name}.txt").read_text().splitlines():
        if line.startswith("wire"):
            wire += line[4:].strip()
        elif line.startswith("is "):
            yield bytes.fromhex(wire), line[3:]
            wire = ""


def signature_infos(wire):
    """Yields bytes that look like the value of a SignatureInfo element."""
    for typ in (b"\x16", b"\x2c"):
        at = wire.rfind(typ)
        if at >= 0 and wire[at + 2 : at + 3] == b"\x1b":
            yield wire[at + 2 : at + 2 + wire[at + 1]]


for target, names in TARGETS.items():
    seeds = [wire for name in names for wire, _ in vectors(name)]
    if target == "name_uri":
        seeds += [uri.encode() for _, uri in vectors("name") if uri.startswith("/")]
    if target == "signature":
        both = [wire for name in ("interest", "data") for wire, _ in vectors(name)]
        seeds = [info for wire in both for info in signature_infos(wire)]
    folder = HERE / "corpus" / target
    folder.mkdir(parents=True, exist_ok=True)
    for i, seed in enumerate(seeds):
        (folder / f"vector-{i}").write_bytes(seed)
