"""The user's lines of one step on each rank: where it called the wrapper, went backward, or stepped."""

from __future__ import annotations

from collections.abc import Mapping

from ddpdoctor.evidence.track import Line, StepSeen


def lines_at(seen: Mapping[int, StepSeen], call: str = "step") -> dict[int, Line]:
    """Where each rank made `call` (forward, inner, backward, grad); where it stepped, if that is not known."""
    found = {rank: one.lines.get(call) or one.line for rank, one in seen.items()}
    return {rank: line for rank, line in found.items() if line is not None}
