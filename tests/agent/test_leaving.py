"""Why a rank left with `sys.exit`: where it called it, or the error that it was handling."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

PROGRAM = """
import sys
from ddpdoctor.agent.inside import ending
from ddpdoctor.agent.inside.rank import Rank
ending.keep_recorder = lambda rank: None  # there is none, and PyTorch need not be imported for that
rank = Rank({directory!r})
rank.place((), {{"rank": 1, "world_size": 2}})
ending.record_uncaught(rank)
{body}
"""


def told(folder: Path, body: str) -> tuple[int, str, dict[str, Any]]:
    """The exit code and last words of a rank that does `body`, and the error that it left."""
    folder.mkdir()
    program = folder / "train.py"
    program.write_text(PROGRAM.format(directory=str(folder), body=body))
    ended = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=120, check=False)
    written = [json.loads(file.read_text()) for file in folder.glob("*.error")]
    return ended.returncode, ended.stderr, written[0] if written else {}


def test_a_rank_that_calls_sys_exit_leaves_the_line_and_the_words(tmp_path: Path) -> None:
    code, words, error = told(tmp_path / "says-why", "def check():\n    sys.exit('disk is full')\ncheck()")
    assert (code, words.splitlines()[-1]) == (1, "disk is full")
    assert (error["type"], error["message"]) == ("SystemExit", "disk is full")
    assert [frame["function"] for frame in error["stack"]] == ["check", "<module>"]
    handling = "try:\n    {}['label 17']\nexcept KeyError:\n    sys.exit(3)"
    code, _, error = told(tmp_path / "handles-an-error", handling)
    assert (code, error["type"], error["message"]) == (3, "KeyError", "'label 17'")


def test_a_rank_that_ends_well_or_by_another_error_leaves_no_such_thing(tmp_path: Path) -> None:
    assert told(tmp_path / "well", "sys.exit(0)") == (0, "", {})
    caught = "try:\n    sys.exit('no')\nexcept SystemExit:\n    pass\nraise ValueError('later')"
    code, _, error = told(tmp_path / "later", caught)
    assert (code, error["type"]) == (1, "ValueError")
