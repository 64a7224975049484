"""The exact step, the line that wrote and the element: what a second run of the same script says about the first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.training_trace import Track
from ddpdoctor.workflows.step_bisection import OpenQuestion, headline_step, left_open, same_until


def exact(evidence: Evidence, command: str, run_again: Callable[[OpenQuestion], Evidence] | None) -> Evidence:
    """`evidence`, or where its headline leaves something open, what says more.

    `run_again` runs the script once more, looks at every step, and closely at what is open. Without it, a note says what
    that is and that `command` would tell; of a line and an element only a replay does.
    """
    tracks = evidence.per_rank(Track)
    left = left_open(diagnose(evidence), tracks) if tracks is not None else None
    if left is None:
        return evidence
    if run_again is not None:
        return _settled(evidence, run_again(left), left)
    if left.window.is_open:
        return _noted(evidence, f"the ranks diverged somewhere in {left.window}: `{command}` finds the step")
    return _noted(evidence, f"`{command}` finds {left}") if "--replay" in command else evidence


def _settled(first: Evidence, again: Evidence, left: OpenQuestion) -> Evidence:
    """The second run's evidence where it tells the same story, else the first's and what the second showed."""
    before, after, window = first.per_rank(Track), again.per_rank(Track), left.window
    report = diagnose(again)
    step = headline_step(report)
    found = f"{report.findings[0].code} at step {step}" if step is not None else "no step at which the ranks diverge"
    if before is None or after is None or not same_until(before, after, window):
        why = (
            "the weights differed from the first run even before that: the script is not deterministic (seeds, order "
            "of data, time)"
        )
    elif step is None or step not in window:
        why = "the script or its environment is not deterministic"
    elif window.is_open:
        return _noted(again, f"replayed: the first run narrowed it down to {window}, the second run checked every step")
    else:
        return _noted(again, f"replayed: the second run examined step {step} to find {left}")
    parted = f"somewhere in {window}" if window.is_open else f"at step {window.apart_at}"
    return _noted(first, f"the ranks diverged {parted}, but the replay adds nothing: it found {found}, and {why}")


def _noted(evidence: Evidence, note: str) -> Evidence:
    return replace(evidence, notes=(*evidence.notes, note))
