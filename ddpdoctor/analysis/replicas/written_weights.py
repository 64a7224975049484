"""Weights that somebody wrote between two steps, or between the forward and the step, on some ranks."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from ddpdoctor.analysis.majority import vote
from ddpdoctor.analysis.replicas.aligned_steps import ByRank, aligned, differing_names, integrity_of, step_of
from ddpdoctor.analysis.replicas.divergences.steps import HowWritten, WeightsWritten, WrittenAt
from ddpdoctor.analysis.replicas.step_callsites import lines_at, lines_that_wrote
from ddpdoctor.analysis.replicas.weights_before_step import given_by_itself, given_differently, who_wrote_given
from ddpdoctor.evidence.audited_steps import StepSeen
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.training_trace import Track


def weights_written(seen: ByRank, before: ByRank | None, tracks: Mapping[int, Track]) -> WeightsWritten | None:
    """Weights that were equal after the last step and are not before this one: somebody wrote them in between."""
    if len({one.weights for one in seen.values()}) == 1:
        return None
    if before is not None and any(seen[rank].step != one.following for rank, one in before.items()):
        return None
    if before is None and any(one.step for one in seen.values()):
        return None
    were = {rank: before[rank].after if before else track.start for rank, track in tracks.items()}
    if len(set(were.values())) > 1:
        return None
    writers = tuple(sorted(rank for rank, one in seen.items() if one.weights != were[rank]))
    names = differing_weights(seen, tracks)
    total = max(len(tracks[rank].tables[one.weights].digests) for rank, one in seen.items())
    decided = vote({rank: one.weights for rank, one in seen.items()})
    culprits = writers if len(writers) < len(seen) else decided.minority
    tables = {rank: tracks[rank].tables[one.weights].digests for rank, one in seen.items()}
    added = tuple(name for name in names if any(name not in table for table in tables.values()))
    how = HowWritten.CHANGED_MODEL if added else HowWritten.WROTE
    if all(_are_equal(names, tracks[rank], were[rank], seen[rank].weights) for rank in culprits):
        how = HowWritten.KEPT
    made = {rank: line for rank in culprits for name in added if (line := seen[rank].origins.get(name)) is not None}
    wrote = made or lines_that_wrote(seen, "weights", culprits)
    loaded = {rank: line for rank in culprits if (line := seen[rank].lines.get("load")) is not None}
    known = loaded if len(loaded) == len(culprits) else {}
    return WeightsWritten(
        step=step_of(seen), ranks=culprits, tensors=added or names, total=total,
        lines=wrote or known or lines_at(seen, "forward"),
        shown=WrittenAt.THE_WRITE if wrote else WrittenAt.A_LOAD if known else WrittenAt.THE_NEXT_FORWARD,
        how=how,
    )  # fmt: skip


def written_between_audits(seen: ByRank, before: ByRank | None, tracks: Mapping[int, Track]) -> WeightsWritten | None:
    """Weights that were equal after an audited step, steps before this one, and that some ranks have written more often since.

    Each step writes as often on all ranks. A job may write and put back on one rank alone, as one that evaluates an average of
    the weights does: where counts were unequal before and the weights stayed equal, they say nothing.
    """
    if before is None or len({one.weights for one in seen.values()}) == 1 or _writes_without_effect(before, tracks):
        return None
    more = _written_more(before, seen)
    if not more or len({one.after for one in before.values()}) > 1:
        return None
    loads = {rank: lines[-1] for rank, track in tracks.items() if (lines := _loads(track, before[rank], seen[rank]))}
    loaded = loads if loads.keys() == set(more) else {}
    return WeightsWritten(
        step=step_of(seen), since=step_of(before), ranks=more, tensors=differing_weights(seen, tracks),
        total=max(len(tracks[rank].tables[one.weights].digests) for rank, one in seen.items()),
        lines=loaded or lines_at(seen, "forward"),
        shown=WrittenAt.A_LOAD if loaded else WrittenAt.THE_NEXT_FORWARD,
    )  # fmt: skip


def given_weights_written(seen: ByRank, tracks: Mapping[int, Track]) -> WeightsWritten | None:
    """Weights that were equal at the forward and are not when the optimizer gets them: somebody wrote them in between."""
    if len({one.weights for one in seen.values()}) > 1:
        return None
    names = given_differently(seen, tracks)
    if not names or given_by_itself(seen, tracks, names):
        return None
    writers, decided = who_wrote_given(seen, tracks, names)
    culprits = writers if len(writers) < len(seen) else decided.minority
    wrote = lines_that_wrote(seen, "given weights", culprits)
    return WeightsWritten(
        step=step_of(seen), ranks=culprits, tensors=names,
        total=max(len(tracks[rank].tables[one.weights].digests) for rank, one in seen.items()),
        lines=wrote or lines_at(seen), shown=WrittenAt.THE_WRITE if wrote else WrittenAt.THE_STEP, after_forward=True,
    )  # fmt: skip


def differing_weights(seen: ByRank, tracks: Mapping[int, Track]) -> tuple[str, ...]:
    """The parameters that are not equal on all ranks before the forward."""
    return differing_names(tracks[rank].tables[one.weights].digests for rank, one in seen.items())


def _written_more(before: ByRank, seen: ByRank) -> tuple[int, ...]:
    """The ranks on which operations wrote the weights more often between two audited steps than on the others."""
    then, now = integrity_of(before), integrity_of(seen)
    if then is None or now is None or len({seen[rank].step - one.following for rank, one in before.items()}) > 1:
        return ()
    writes = {rank: now[rank].begin - then[rank].end for rank in seen}
    return tuple(sorted(rank for rank, number in writes.items() if number > min(writes.values())))


def _writes_without_effect(last: ByRank, tracks: Mapping[int, Track]) -> bool:
    """Whether ranks wrote the weights unequally often up to the audited step `last`, after which the weights are equal."""
    until = min(one.key for one in last.values())
    steps = [seen for seen in aligned(tracks) if all(one.key <= until for one in seen.values())]
    return any(_written_more(one, other) for one, other in pairwise(steps))


def _loads(track: Track, before: StepSeen, seen: StepSeen) -> list[Frame]:
    """Where the rank loaded weights between two audited steps of all ranks; it may have audited some in between."""
    return [line for one in track.steps if before.key < one.key <= seen.key and (line := one.lines.get("load"))]


def _are_equal(names: tuple[str, ...], track: Track, one: str | None, other: str) -> bool:
    """Whether a rank has these parameters in two of its tables, and the same bytes in both."""
    tables = [track.tables[key].digests for key in (one, other) if key is not None and key in track.tables]
    return len(tables) == 2 and all(name in tables[0] and tables[0][name] == tables[1].get(name) for name in names)
