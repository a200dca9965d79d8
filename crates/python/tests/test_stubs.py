"""The type stubs and annotations say what is there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import byname


def mypy(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=folder)


def test_stubs_have_every_name_and_parameter(tmp_path: Path) -> None:
    done = mypy("mypy.stubtest", "byname._byname", folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


PROGRAM = """
import asyncio
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import byname

table = byname.PrefixTable.from_rules(["/a"], [1], syntax="path")
values: NDArray[np.int64] = table.find(["/a/b"])
flat = byname.FlatTable.load(np.arange(5), 7, value_bits=8, unknown="exact")
found: int | None = flat.get(3)
rows = flat.find(b"ab", offsets=np.array([0, 1, 2]))
some, offsets = byname.TagTable().find([["a"], {b"b"}])


async def main() -> bytes:
    async with await byname.connect("unix:///run/nfd/nfd.sock") as client:
        data = await client.express("/a", must_be_fresh=True)
        async with await client.produce("/b") as producer:
            async for interest in producer:
                await interest.reply(data.content, freshness=1.0)
        publication: byname.Publication = await client.publish("/c", Path("file"))
        print(publication.name)
        return b"".join([part async for part in await client.fetch_parts("/c")])


asyncio.run(main())
"""

WRONG = {
    "byname.PrefixTable(syntax='paths')": "Argument \"syntax\"",
    "byname.FlatTable().get(1.5)": "Argument 1",
    "byname.TagTable().insert(['a'])": "Missing positional argument",
    "byname.PrefixTable().find(['/a']).no_such": "no_such",
    "byname.connect(5)": "Argument 1",
}


def test_a_program_has_the_right_types(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    done = mypy("mypy", "--strict", "program.py", folder=tmp_path)
    assert done.returncode == 0, done.stdout
    (tmp_path / "wrong.py").write_text("import byname\n" + "".join(f"{line}\n" for line in WRONG))
    done = mypy("mypy", "wrong.py", folder=tmp_path)
    for number, words in enumerate(WRONG.values(), start=2):
        assert any(line.startswith(f"wrong.py:{number}:") and words in line for line in done.stdout.splitlines()), done.stdout


def test_the_package_checks_itself(tmp_path: Path) -> None:
    done = mypy("mypy", "--strict", "-p", "byname", folder=tmp_path)
    assert done.returncode == 0, done.stdout


def test_all_names_are_documented_and_exported() -> None:
    assert sorted(byname.__all__) == byname.__all__
    for name in byname.__all__:
        assert hasattr(byname, name)
    errors = {name for name, item in vars(byname.errors).items() if isinstance(item, type)}
    assert errors <= set(byname.__all__)
    assert all(getattr(byname, name).__doc__ for name in byname.__all__)
