"""At which turn of its loop a script calls a forward, by the loop's own count."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ddpdoctor.agent.inside.calls.call_stacks import KnownStacks
from ddpdoctor.agent.inside.calls.loop_counter import LoopCounters

WITHIN_A_FUNCTION = [0, 1, 2] if sys.version_info >= (3, 13) else [None] * 3
SCRIPTS = {
    "enumerate": ("for step, batch in enumerate('abc'):\n    forward()", [0, 1, 2]),
    "passed-over": ("for step in range(4):\n    if step == 1:\n        continue\n    forward()", [0, 2, 3]),
    "counted-by-hand": ("step = 5\nwhile step < 8:\n    forward()\n    step += 1", [5, 6, 7]),
    "batches-counted": ("step = 0\nfor batch in 'abc':\n    step += 1\n    forward()", [1, 2, 3]),
    "innermost": ("for epoch in range(2):\n    for step in range(2):\n        forward()", [0, 1, 0, 1]),
    "called-from-it": ("def train():\n    forward()\n\nfor step in range(2):\n    train()", [0, 1]),
    "nothing-counts": ("for batch in 'ab':\n    forward()", [None, None]),
    "no-loop": ("step = 3\nforward()", [None]),
    "in-a-function": ("def main():\n    for step in range(3):\n        forward()\n\nmain()", WITHIN_A_FUNCTION),
}


def forwards(is_users: Callable[[str], bool]) -> tuple[list[int | None], Callable[[], None]]:
    """A list, and a function that appends to it the turn at which it is called."""
    turns, stacks, seen = LoopCounters(is_users), KnownStacks(), []

    def forward() -> None:
        caller = sys._getframe(1)
        seen.append(turns.now(stacks.of(caller), caller))

    return seen, forward


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_loops_own_count_is_read(script: str, tmp_path: Path) -> None:
    source, expected = SCRIPTS[script]
    program = tmp_path / "train.py"
    program.write_text(source)
    seen, forward = forwards(lambda file: file == str(program))

    runpy.run_path(str(program), {"forward": forward})

    assert seen == expected


def test_a_script_that_cannot_be_read_has_no_count() -> None:
    seen, forward = forwards(lambda _: True)

    exec(compile("for step in range(2):\n    forward()", "/nowhere/train.py", "exec"), {"forward": forward})

    assert seen == [None, None]
