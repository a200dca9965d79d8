"""Runs the Python in the guide and in the crate's README, beside a router."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from router import Router

NOT_RUN = "<!-- not run: it needs keys; crates/python/tests/test_client.py does the same -->\n```python"
ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(("document", "blocks"), [("docs/guide/python.md", 7), ("crates/python/README.md", 2)])
def test_python_in_documents_runs(router: Router, tmp_path: Path, document: str, blocks: int) -> None:
    text = (ROOT / document).read_text().replace(NOT_RUN, "")
    found = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(found) == blocks
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(found)], capture_output=True, text=True, timeout=60, cwd=tmp_path,
        env={**os.environ, "NDN_CLIENT_TRANSPORT": router.unix},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
