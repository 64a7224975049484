"""The wheel of this tree, built from the files that git knows or would add: a folder of builds beside them is no part of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.waiting import PROGRAM_SECONDS

ROOT = Path(__file__).parents[1]


def build_wheel(folder: Path) -> Path:
    """The wheel, in `folder`."""
    source = folder / "source"
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout.split(b"\0")
    for name in filter(None, listed):
        path = ROOT / name.decode()
        if path.is_file():
            target = source / name.decode()
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, source],
        check=True,
        capture_output=True,
        timeout=PROGRAM_SECONDS,
    )
    return next(folder.glob("*.whl"))
