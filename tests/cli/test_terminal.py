"""What a terminal gets: colours as NO_COLOR and FORCE_COLOR ask, its width, and a status line that stays in one row."""

from __future__ import annotations

import io

import pytest

from ddpdoctor.cli import terminal
from ddpdoctor.cli.status_line import JobProgress


class Tty(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        raise OSError


@pytest.mark.parametrize(
    ("environ", "tty", "colored"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, True, False),
        ({"TERM": "dumb"}, True, False),
    ],
)
def test_colours(environ: dict[str, str], tty: bool, colored: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert terminal.screen(Tty() if tty else io.StringIO()).color is colored


def test_a_pipe_is_not_wrapped_and_a_terminal_is_to_its_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "72")
    assert terminal.screen(io.StringIO()).width is None
    assert terminal.screen(Tty()).width == 72


class Agent:
    """What the status line reads of one rank."""

    def __init__(self, rank: int, steps: int, written: int) -> None:
        self.rank = rank
        self.header = type("Header", (), {"steps": steps, "written": written, "returned": written})()


def test_the_status_line_names_ranks_pace_and_the_rank_that_is_always_behind() -> None:
    progress = JobProgress()
    for second in range(8):
        agents = [Agent(rank, 4 * second, 10 * second - (rank == 2)) for rank in range(4)]
        assert progress.observe(agents, 0.0, float(second))  # type: ignore[arg-type]
        assert not progress.observe(agents, 0.0, second + 0.2)  # type: ignore[arg-type]
    assert progress.in_words() == "4 ranks · step 28 · 4 steps/s · slowest rank 2 · last progress 0 s ago"


def test_ranks_in_step_have_no_slowest() -> None:
    progress = JobProgress()
    for second in range(8):
        progress.observe([Agent(rank, second, second) for rank in range(4)], 0.0, float(second))  # type: ignore[arg-type]
    assert "slowest" not in progress.in_words()
