"""Arrays of a million keys are looked up at least half as fast as in Rust, measured in turns in one run (`speed.py`)."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import speed

ROOT = Path(__file__).resolve().parents[3]
# The ratio compares turns that are seconds apart. Another program may take the processor in one of them.
ATTEMPTS = 3


@pytest.mark.timeout(1800)
def test_arrays_are_looked_up_at_half_of_the_speed_of_rust(capsys: pytest.CaptureFixture[str]) -> None:
    cargo = shutil.which("cargo")
    if cargo is None:
        pytest.skip("no cargo, which builds the Rust half of the comparison")
    package = ["--locked", "--release", "-p", "byname-python", "--example", "speed"]
    subprocess.run([cargo, "build", *package], cwd=ROOT, check=True)
    target = ROOT / os.environ.get("CARGO_TARGET_DIR", "target")
    program = str(target / "release" / "examples" / "speed")
    assert any(speed.main(program) == 0 for _ in range(ATTEMPTS)), capsys.readouterr().out
