"""Weights that somebody wrote between two steps, or between the forward and the step, on some ranks."""

from __future__ import annotations

from collections.abc import Mapping

from ddpdoctor.analysis.majority import vote
from ddpdoctor.analysis.replicas.aligned_steps import ByRank, differing_names, step_of
from ddpdoctor.analysis.replicas.divergences.steps import HowWritten, WeightsWritten, WrittenAt
from ddpdoctor.analysis.replicas.step_callsites import lines_at, lines_that_wrote
from ddpdoctor.analysis.replicas.weights_before_step import given_by_itself, given_differently, who_wrote_given
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


def _are_equal(names: tuple[str, ...], track: Track, one: str | None, other: str) -> bool:
    """Whether a rank has these parameters in two of its tables, and the same bytes in both."""
    tables = [track.tables[key].digests for key in (one, other) if key is not None and key in track.tables]
    return len(tables) == 2 and all(name in tables[0] and tables[0][name] == tables[1].get(name) for name in names)
