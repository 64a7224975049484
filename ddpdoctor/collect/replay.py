"""The exact step, and the line that did it: what a second run of the same script says about the first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ddpdoctor.analysis.windows import Window, headline_step, line_left, same_until, window_left
from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.track import Track


def exact(evidence: Evidence, command: str, run_again: Callable[[Window], Evidence] | None) -> Evidence:
    """`evidence`, or where its headline leaves open at which step, or which line wrote, what says more.

    `run_again` runs the script once more, looks at every step, and in a window of steps for the lines that write. Without
    it, a note says what is left open and that `command` would tell; of the line only where that command is a replay.
    """
    tracks = evidence.per_rank(Track)
    if tracks is None:
        return evidence
    report = diagnose(evidence)
    window = window_left(report, tracks)
    if window is not None:
        if run_again is None:
            return _noted(evidence, f"the ranks parted somewhere in {window}: `{command}` says at which")
        return _settled(
            evidence, run_again(window), window, f"the first run left {window} open, the second looked at every step"
        )
    written = line_left(report)
    if written is None:
        return evidence
    if run_again is None:
        return _noted(evidence, f"`{command}` says which line did it") if "--replay" in command else evidence
    return _settled(
        evidence,
        run_again(written),
        written,
        f"the second run looked for the line that writes before step {written.apart_at}",
    )


def _settled(first: Evidence, again: Evidence, window: Window, why_again: str) -> Evidence:
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
        return _noted(again, f"replayed: {why_again}")
    parted = f"somewhere in {window}" if window.is_open else f"at step {window.apart_at}"
    return _noted(first, f"the ranks parted {parted}, and a replay does not tell more: it found {found}, and {why}")


def _noted(evidence: Evidence, note: str) -> Evidence:
    return replace(evidence, notes=(*evidence.notes, note))
