"""The agent knows the user's line that set MASTER_ADDR or MASTER_PORT, through whatever it was set."""

from __future__ import annotations

import os
import types
from pathlib import Path

import pytest

from ddpdoctor.agent.inside.process.rendezvous_writes import follow_writes
from ddpdoctor.agent.inside.rank_process import Rank
from ddpdoctor.agent.inside.schema.call_texts import EnvWrite
from ddpdoctor.agent.inside.schema.source_line import SourceLine


@pytest.fixture
def rank(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Rank:
    """A rank that follows writes, with variables of its own."""
    monkeypatch.setattr(os, "putenv", os.putenv)
    for name in ("MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.setenv(name, "given")
    found = Rank(str(tmp_path))
    follow_writes(found)
    return found


def run(code: str, file: str) -> types.ModuleType:
    """A module of this code and file."""
    module = types.ModuleType("job")
    exec(compile(code, file, "exec"), module.__dict__)
    return module


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("import os\ndef load():\n    os.environ['MASTER_PORT'] = '4000'\nload()", 3),
        ("import os\ndef load():\n    os.environ.update({'MASTER_PORT': '4000'})\nload()", 3),
        ("import os\ndef load():\n    for n in ('A', 'MASTER_PORT'):\n        os.environ[n] = '4000'\nload()", 4),
    ],
)
def test_the_line_and_the_value_are_kept(rank: Rank, monkeypatch: pytest.MonkeyPatch, code: str, line: int) -> None:
    monkeypatch.delenv("A", raising=False)
    run(code, "/home/me/job/train.py")
    monkeypatch.delenv("A", raising=False)
    assert rank.writes == {
        "MASTER_PORT": EnvWrite("MASTER_PORT", "4000", SourceLine("/home/me/job/train.py", line, "load"))
    }
    assert os.environ["MASTER_PORT"] == "4000"


def test_a_package_that_sets_it_is_shown_by_the_line_that_called_the_package(rank: Rank) -> None:
    package = run(
        "import os\ndef load_dotenv():\n    os.environ['MASTER_ADDR'] = 'node7'",
        "/usr/lib/python3/site-packages/dotenv/main.py",
    )
    exec(compile("\nload_dotenv()", "/home/me/job/train.py", "exec"), {"load_dotenv": package.load_dotenv})
    assert rank.writes["MASTER_ADDR"].place == SourceLine("/home/me/job/train.py", 2, "<module>")


def test_other_variables_are_set_as_ever(rank: Rank, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTHER", "1")
    assert os.environ["OTHER"] == "1"
    assert not rank.writes
    with pytest.raises(TypeError):
        os.putenv("MASTER_PORT", 7)  # type: ignore[arg-type]
