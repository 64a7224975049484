"""The fuzzer itself: it sees each law that is broken, it draws the same for a seed, and what it found stays mended."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.fuzz.__main__ import MARK, Ended, broken_law
from tests.fuzz.kinds import KINDS


@pytest.mark.parametrize(
    ("code", "shown", "law"),
    [
        (0, "no findings\n", ""),
        (4, "ddpdoctor failed: KeyError: 1\n", "exit code 4 after 1.0 s"),
        (-24, "", "exit code -24 after 1.0 s"),
        (1, "Traceback (most recent call last)\n", "a traceback"),
        (1, "  | Traceback (most recent call last)\n", ""),
        (1, "a\x1b[2J", "control characters: ['\\x1b']"),
    ],
)
def test_each_law_that_is_broken_is_seen(tmp_path: Path, code: int, shown: str, law: str) -> None:
    assert broken_law(Ended(code, 1.0, 0, shown), tmp_path, 100) == law


def test_what_was_run_is_seen(tmp_path: Path) -> None:
    (tmp_path / MARK).mkdir()
    assert broken_law(Ended(0, 1.0, 0, ""), tmp_path, 100) == "something was run"


@pytest.mark.parametrize(
    "kind",
    ["written log", "program", "arguments", "text", "options", "settings", "archive", "rank message", "environment"],
)
def test_a_seed_draws_the_same_again(kind: str) -> None:
    assert KINDS[kind](random.Random("7 3")) == KINDS[kind](random.Random("7 3"))
