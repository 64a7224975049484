"""The exact step, the line that wrote and the element: what a second run of the same script says about the first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ddpdoctor.analysis.windows import Open, headline_step, left_open, same_until
from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.track import Track


def exact(evidence: Evidence, command: str, run_again: Callable[[Open], Evidence] | None) -> Evidence:
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
        return _noted(evidence, f"the ranks parted somewhere in {left.window}: `{command}` says at which")
    return _noted(evidence, f"`{command}` says {left}") if "--replay" in command else evidence


def _settled(first: Evidence, again: Evidence, left: Open) -> Evidence:
    """The second run's evidence where it tells the same story, else the first's and what the second showed."""
    before, after, window = first.per_rank(Track), again.per_rank(Track), left.window
    report = diagnose(again)
    step = headline_step(report)
    found = f"{report.findings[0].code} at step {step}" if step is not None else "no step at which the ranks part"
    if before is None or after is None or not same_until(before, after, window):
        why = "the weights were others even before: the script is not deterministic (seeds, order of data, time)"
    elif step is None or step not in window:
        why = "the script, or what it meets, is not deterministic"
    elif window.is_open:
        return _noted(again, f"replayed: the first run left {window} open, the second looked at every step")
    else:
        return _noted(again, f"replayed: the second run looked at step {step} for {left}")
    parted = f"somewhere in {window}" if window.is_open else f"at step {window.apart_at}"
    return _noted(first, f"the ranks parted {parted}, and a replay does not tell more: it found {found}, and {why}")


def _noted(evidence: Evidence, note: str) -> Evidence:
    return replace(evidence, notes=(*evidence.notes, note))
