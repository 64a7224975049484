"""Why a rank left with `sys.exit`: where it called it, or the error that it was handling."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from ddpdoctor.agent.inside.schema.error import Error
from ddpdoctor.agent.inside.schema.rank_end import Left, RankFailure
from ddpdoctor.ranks.json_records import read_json
from tests.waiting import PROGRAM_SECONDS

PROGRAM = """
import sys
from ddpdoctor.agent.inside.process import exit_hooks
from ddpdoctor.agent.inside.rank_process import Rank
exit_hooks.keep_recorder = lambda rank: None  # there is none, and PyTorch need not be imported for that
rank = Rank({directory!r})
rank.place((), {{"rank": 1, "world_size": 2}})
exit_hooks.record_uncaught(rank)
{body}
"""


def told(folder: Path, body: str) -> tuple[int, str, Error | None]:
    """The exit code and last words of a rank that does `body`, and the error that it left."""
    folder.mkdir()
    program = folder / "train.py"
    program.write_text(PROGRAM.format(directory=str(folder), body=body))
    ended = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, timeout=PROGRAM_SECONDS, check=False
    )
    errors = [read_json(RankFailure, file.read_bytes()) for file in folder.glob("*.error")]
    return ended.returncode, ended.stderr, next((failure.error for failure in errors if failure is not None), None)


def test_a_rank_that_calls_sys_exit_leaves_the_line_and_the_words(tmp_path: Path) -> None:
    code, words, error = told(tmp_path / "says-why", "def check():\n    sys.exit('disk is full')\ncheck()")
    assert (code, words.splitlines()[-1]) == (1, "disk is full")
    assert error is not None
    assert (error.type, error.message) == ("SystemExit", "disk is full")
    assert [line.function for line in error.stack] == ["check", "<module>"]
    handling = "try:\n    {}['label 17']\nexcept KeyError:\n    sys.exit(3)"
    code, _, error = told(tmp_path / "handles-an-error", handling)
    assert error is not None
    assert (code, error.type, error.message) == (3, "KeyError", "'label 17'")


LOGGED = """
import logging
def load():
    raise ValueError('no such shard')
code = 0
try:
    load()
except ValueError:
    logging.getLogger().exception('training failed')
    code = 7
sys.exit(code)
"""


def test_a_rank_that_logs_its_error_and_leaves_later_leaves_the_line_that_raised(tmp_path: Path) -> None:
    code, _, error = told(tmp_path / "logs", LOGGED)
    assert error is not None
    assert (code, error.type, error.stack[0].function) == (7, "ValueError", "load")
    survived = LOGGED.replace("sys.exit(code)", "exit_hooks.SHOWN_SECONDS = -1.0\ndef stop():\n    sys.exit(3)\nstop()")
    code, _, error = told(tmp_path / "survives", survived)
    assert error is not None
    assert (code, error.type, error.stack[0].function) == (3, "SystemExit", "stop")


def test_a_rank_that_leaves_without_a_failure_says_at_which_line(tmp_path: Path) -> None:
    assert told(tmp_path / "helper", "def stop():\n    sys.exit(0)\nstop()") == (0, "", None)
    (file,) = (tmp_path / "helper").glob("*.left")
    left = read_json(Left, file.read_bytes())
    assert left is not None
    assert [line.function for line in left.called] == ["stop", "<module>"]


def test_a_rank_that_ends_well_or_by_another_error_leaves_no_such_thing(tmp_path: Path) -> None:
    assert told(tmp_path / "well", "sys.exit(0)") == (0, "", None)
    caught = "try:\n    sys.exit('no')\nexcept SystemExit:\n    pass\nraise ValueError('later')"
    code, _, error = told(tmp_path / "later", caught)
    assert error is not None
    assert (code, error.type) == (1, "ValueError")


def test_a_rank_that_leaves_by_another_call_than_sys_exit_says_at_which_line(tmp_path: Path) -> None:
    for name, call in (("at-once", "import os; os._exit({})"), ("by-name", "exit({})"), ("by-other-name", "quit({})")):
        assert told(tmp_path / name, f"def stop():\n    {call.format(0)}\nstop()") == (0, "", None)
        (file,) = (tmp_path / name).glob("*.left")
        left = read_json(Left, file.read_bytes())
        assert left is not None
        assert [line.function for line in left.called] == ["stop", "<module>"], name
        code, _, error = told(tmp_path / f"{name}-failing", f"def stop():\n    {call.format(4)}\nstop()")
        assert error is not None
        assert (code, error.message, [line.function for line in error.stack]) == (4, "4", ["stop", "<module>"]), name


def test_the_end_of_a_forked_rank_is_no_call_of_os_exit(tmp_path: Path) -> None:
    body = """
import multiprocessing
def work():
    rank.place((), {"rank": 1, "world_size": 2})
    sys.exit("disk is full")
child = multiprocessing.get_context("fork").Process(target=work)
child.start()
child.join()
"""
    _, _, error = told(tmp_path / "forked", body)
    assert error is not None
    assert error.message == "disk is full"
