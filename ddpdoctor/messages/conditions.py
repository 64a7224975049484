"""How a message shows the condition that a call is under."""

from __future__ import annotations

from pathlib import PurePath

from ddpdoctor.evidence.source import SIGNAL_HANDLER, Condition


def condition_text(condition: Condition, file: str) -> str:
    """The condition as a note: `inside `if rank == 0` (train.py:85)`."""
    where = f"({PurePath(file).name}:{condition.line})"
    if condition.handles_a_signal:
        return f"inside the signal handler `{condition.test.removeprefix(SIGNAL_HANDLER)}` {where}"
    if condition.is_block:
        return f"inside `{condition.test}` {where}"
    if condition.asks:
        return f"with `{condition.test}` {where}"
    return f"inside `if {condition.test}` {where}" if condition.holds else f"outside `if {condition.test}` {where}"
