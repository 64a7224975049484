"""Adds the page `reference.md` to the documentation: the help of every command, as the program of this tree prints it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]


def on_files(files: Files, config: Any) -> Files:
    """What mkdocs calls once it knows the pages."""
    files.append(File.generated(config, "reference.md", content=reference()))
    return files


def reference() -> str:
    """The page: one section a command."""
    sys.path.insert(0, str(ROOT))
    from ddpdoctor.cli import COMMANDS

    names = [name.replace("_", "-") for name in COMMANDS]
    sections = [f"## {name}\n\n```text\n{_help(name)}\n```\n" for name in sorted(names)]
    return "\n".join(
        [
            "# Commands\n\nEvery option can be set by a variable or in pyproject.toml, too: see [config](guide/config.md).\n",
            *sections,
        ]
    )


def _help(name: str) -> str:
    ended = subprocess.run(
        [sys.executable, "-m", "ddpdoctor", name, "--help"],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "100", "TERMINAL_WIDTH": "100"},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return ended.stdout.strip()
