"""Parts of parameters and of optimizer state on a device mesh (FSDP2, HSDP) that some ranks changed between two steps.

A part is read after each audited step and before the next, so it is seen on which rank it changed, also where nobody holds the
same part.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ddpdoctor.analysis.replicas.aligned_steps import ByRank, step_of
from ddpdoctor.analysis.replicas.divergences.results import Corrupted, StepNotReproducible
from ddpdoctor.analysis.replicas.divergences.steps import WeightsWritten, WrittenAt
from ddpdoctor.analysis.replicas.flipped_bits import bits_of, in_one_element
from ddpdoctor.analysis.replicas.step_callsites import lines_at
from ddpdoctor.evidence.audited_steps import PartMark
from ddpdoctor.grouping import grouped

_Parts = Mapping[str, tuple[int, str]]  # by name, the lowest rank that holds the same part, and its fingerprint


def parts_written(seen: ByRank, before: ByRank | None) -> WeightsWritten | StepNotReproducible | None:
    """Parts that some ranks alone have changed since the step `before`, and whether code or the hardware did it.

    Of the optimizer's state only what the hardware did.
    """
    if before is None or any(seen[rank].step != one.following for rank, one in before.items()):
        return None
    weights = {
        rank: _Gap(before[rank].parts, one.parts_before, before[rank].part_marks, one.part_marks_before)
        for rank, one in seen.items()
    }
    found = _by_hardware(weights, seen, before)
    if found is not None:
        return found
    parted = {name: ranks for name in _names(weights) if (ranks := _writers(name, weights))}
    if parted:
        return WeightsWritten(
            step=step_of(seen),
            ranks=tuple(sorted({rank for ranks in parted.values() for rank in ranks})), tensors=tuple(parted),
            total=max(len(one.parts_before) for one in seen.values()), lines=lines_at(seen), shown=WrittenAt.THE_STEP,
        )  # fmt: skip
    state = {
        rank: _Gap(before[rank].state_parts, one.state_parts_before, before[rank].state_marks, one.state_marks_before)
        for rank, one in seen.items()
    }
    return _by_hardware(state, seen, before)


class _Gap(NamedTuple):
    """What one rank holds on a device mesh after a step and before the next one, of weights or of state."""

    then: _Parts
    now: _Parts
    marks_then: Mapping[str, PartMark]
    marks_now: Mapping[str, PartMark]

    @property
    def moved(self) -> tuple[str, ...]:
        """The names of the parts that are no longer what they were."""
        return tuple(name for name, part in self.now.items() if name in self.then and part != self.then[name])


_Gaps = Mapping[int, _Gap]


def _by_hardware(gaps: _Gaps, seen: ByRank, before: ByRank) -> StepNotReproducible | None:
    """On one rank alone, one element of one part changed, and no operation has written that tensor.

    Without a replica whose part stayed as it was, a single bit: `.data.clamp_()` on all ranks may change one element of one part.
    """
    moved = {rank: gap.moved for rank, gap in gaps.items() if gap.moved}
    if len(moved) != 1:
        return None
    ((rank, names),) = moved.items()
    name = names[0]
    now, then = gaps[rank].marks_now.get(name), gaps[rank].marks_then.get(name)
    if len(names) > 1 or now is None or then is None or now.writes != then.writes:
        return None
    mask = now.parity ^ then.parity
    has_replica = bool(_writers(name, gaps))
    if not mask or not in_one_element(mask, now.bits) or not (has_replica or not mask & (mask - 1)):
        return None
    return StepNotReproducible(
        step=step_of(seen), ranks=(rank,), tensors=(name,), at=Corrupted.PART,
        bits=bits_of(mask, now.bits), equal_at=before[rank].step, lines=lines_at(seen),
    )  # fmt: skip


def _names(gaps: _Gaps) -> dict[str, None]:
    return dict.fromkeys(name for gap in gaps.values() for name in gap.moved)


def _writers(name: str, gaps: _Gaps) -> tuple[int, ...]:
    """The ranks that changed their part of `name`, where a rank that holds the same part did not, and had the same before."""
    found: set[int] = set()
    holders = grouped((gap.now[name][0], rank) for rank, gap in gaps.items() if name in gap.now and name in gap.then)
    for ranks in holders.values():
        writers = {rank for rank in ranks if gaps[rank].now[name] != gaps[rank].then[name]}
        if 0 < len(writers) < len(ranks) and len({gaps[rank].then[name] for rank in ranks}) == 1:
            found |= writers
    return tuple(sorted(found))
