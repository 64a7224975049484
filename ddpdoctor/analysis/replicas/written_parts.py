"""Parts of parameters on a device mesh (FSDP2, HSDP) that changed on some ranks between two optimizer steps.

A part is read after each audited step and before the next, so it is seen on which rank it changed, also where nobody holds the
same part.
"""

from __future__ import annotations

from collections.abc import Mapping

from ddpdoctor.analysis.replicas.aligned_steps import ByRank
from ddpdoctor.analysis.replicas.divergence import Corrupted, StepNotReproducible, WeightsWritten, WrittenAt
from ddpdoctor.analysis.replicas.hardware_errors import bits_of, in_one_element
from ddpdoctor.analysis.replicas.step_callsites import lines_at


def parts_written(seen: ByRank, before: ByRank | None) -> WeightsWritten | StepNotReproducible | None:
    """Parts that some ranks alone have changed since the step `before`, and whether code or the hardware did it."""
    if before is None or any(seen[rank].step != one.following for rank, one in before.items()):
        return None
    moved = {rank: names for rank in seen if (names := _moved(rank, seen, before))}
    parted = {name: ranks for name in _names(moved) if (ranks := _writers(name, moved, seen, before))}
    step = max(one.step for one in seen.values())
    if len(moved) == 1 and (found := _by_hardware(seen, before, moved, step, has_replica=bool(parted))) is not None:
        return found
    if not parted:
        return None
    return WeightsWritten(
        step=step, ranks=tuple(sorted({rank for ranks in parted.values() for rank in ranks})), tensors=tuple(parted),
        total=max(len(one.parts_before) for one in seen.values()), lines=lines_at(seen), shown=WrittenAt.THE_STEP,
    )  # fmt: skip


def _by_hardware(
    seen: ByRank, before: ByRank, moved: Mapping[int, tuple[str, ...]], step: int, *, has_replica: bool
) -> StepNotReproducible | None:
    """One element of one part changed, and no operation has written that parameter.

    Without a replica whose part stayed as it was, a single bit: `.data.clamp_()` on all ranks may change one element of one part.
    """
    ((rank, names),) = moved.items()
    name = names[0]
    now, then = seen[rank].part_marks_before.get(name), before[rank].part_marks.get(name)
    if len(names) > 1 or now is None or then is None or now.writes != then.writes:
        return None
    mask = now.parity ^ then.parity
    if not mask or not in_one_element(mask, now.bits) or not (has_replica or not mask & (mask - 1)):
        return None
    return StepNotReproducible(
        step=step, ranks=(rank,), tensors=(name,), at=Corrupted.PART, bits=bits_of(mask, now.bits),
        equal_at=before[rank].step, lines=lines_at(seen),
    )  # fmt: skip


def _moved(rank: int, seen: ByRank, before: ByRank) -> tuple[str, ...]:
    """The parameters whose part on this rank is no longer what it was after the step `before`."""
    were = before[rank].parts
    return tuple(name for name, part in seen[rank].parts_before.items() if name in were and part != were[name])


def _names(moved: Mapping[int, tuple[str, ...]]) -> dict[str, None]:
    return dict.fromkeys(name for names in moved.values() for name in names)


def _writers(name: str, moved: Mapping[int, tuple[str, ...]], seen: ByRank, before: ByRank) -> tuple[int, ...]:
    """The ranks that changed their part of `name`, where a rank that holds the same part did not, and had the same before."""
    found: set[int] = set()
    holders: dict[int, list[int]] = {}
    for rank, one in seen.items():
        if name in one.parts_before and name in before[rank].parts:
            holders.setdefault(one.parts_before[name][0], []).append(rank)
    for ranks in holders.values():
        writers = {rank for rank in ranks if name in moved.get(rank, ())}
        if 0 < len(writers) < len(ranks) and len({before[rank].parts[name] for rank in ranks}) == 1:
            found |= writers
    return tuple(sorted(found))
