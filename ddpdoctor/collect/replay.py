"""The exact step, where not every step was looked at: what a second run of the same script says about the first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ddpdoctor.analysis.windows import Window, headline_step, same_until, window_left
from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.track import Track


def exact(evidence: Evidence, command: str, run_again: Callable[[], Evidence] | None) -> Evidence:
    """`evidence`, or where its headline leaves a window of steps, what says more.

    `run_again` runs the script once more and looks at every step. Without it, a note says which window is left and that
    `command` would narrow it.
    """
    tracks = evidence.per_rank(Track)
    window = window_left(diagnose(evidence), tracks) if tracks is not None else None
    if window is None:
        return evidence
    if run_again is None:
        return _noted(evidence, f"the ranks parted somewhere in {window}: `{command}` says at which")
    return _settled(evidence, run_again(), window)


def _settled(first: Evidence, again: Evidence, window: Window) -> Evidence:
    """The second run's evidence where it tells the same story, else the first's and what the second showed."""
    before, after = first.per_rank(Track), again.per_rank(Track)
    report = diagnose(again)
    step = headline_step(report)
    found = f"{report.findings[0].code} at step {step}" if step is not None else "no step at which the ranks part"
    if before is None or after is None or not same_until(before, after, window):
        why = "the weights were others even before: the script is not deterministic (seeds, order of data, time)"
    elif step is None or step not in window:
        why = "the script, or what it meets, is not deterministic"
    else:
        return _noted(again, f"replayed: the first run left {window} open, the second looked at every step")
    return _noted(
        first,
        f"the ranks parted somewhere in {window}, and a replay does not tell at which: it found {found}, and {why}",
    )


def _noted(evidence: Evidence, note: str) -> Evidence:
    return replace(evidence, notes=(*evidence.notes, note))
