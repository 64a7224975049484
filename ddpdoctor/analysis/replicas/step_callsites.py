"""The user's lines of one step on each rank: where it called the wrapper, went backward, or stepped; and what wrote where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ddpdoctor.evidence.audited_steps import StepSeen
from ddpdoctor.evidence.frames import Frame


def lines_at(seen: Mapping[int, StepSeen], call: str = "step") -> dict[int, Frame]:
    """Where each rank made `call` (forward, backward, grad); where it stepped, if that is not known."""
    found = {rank: one.lines.get(call) or one.line for rank, one in seen.items()}
    return {rank: line for rank, line in found.items() if line is not None}


def lines_that_wrote(seen: Mapping[int, StepSeen], what: str, culprits: Sequence[int]) -> dict[int, Frame]:
    """The line at which each culprit last changed `what` and not all ranks did; else the last that all of them did.

    Where lines may be missing, one that all ranks have is none to blame.
    """
    own = own_lines(seen, what, culprits)
    if own or any(one.partly_watched for one in seen.values()):
        return own
    return {rank: lines[-1] for rank in culprits if (lines := seen[rank].writes.get(what))}


def own_lines(seen: Mapping[int, StepSeen], what: str, culprits: Sequence[int]) -> dict[int, Frame]:
    """The line at which each culprit last changed `what`, of those at which not all ranks did."""
    by_rank = {rank: one.writes.get(what, ()) for rank, one in seen.items()}
    on_all = set.intersection(*(set(lines) for lines in by_rank.values()))
    own = {rank: [line for line in by_rank[rank] if line not in on_all] for rank in culprits}
    return {rank: lines[-1] for rank, lines in own.items() if lines}
