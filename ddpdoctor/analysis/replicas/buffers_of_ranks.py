"""Buffers that are not equal on all ranks: which of them should be, where nothing keeps them equal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ddpdoctor.analysis.replicas.aligned_steps import ByRank
from ddpdoctor.analysis.replicas.buffer_changes import is_kept_by_a_rank, writes_since, written_on_some_ranks
from ddpdoctor.evidence.replicas import ValueDifference
from ddpdoctor.evidence.training_trace import Track, model_prefix

LEAST_UNCHANGED = 2  # times in a row, in a job without a wrapper, before a buffer counts as one that nobody updates


class BuffersOfRanks:
    """The buffers of all ranks, step after step. Those that wrappers leave to each rank may become different."""

    def __init__(self, tracks: Mapping[int, Track]) -> None:
        broadcasting = [track.broadcasts_buffers for track in tracks.values()]
        self._left_to_ranks = {prefix for mine in broadcasting for prefix, broadcasts in mine.items() if not broadcasts}
        self._ignored = frozenset(name for track in tracks.values() for name in track.ignored_buffers)
        self._is_wrapped = any(track.wrap_lines or track.start for track in tracks.values())
        self._unchanged: Counter[str] = Counter()
        self._before: ByRank = {}
        self.own: tuple[ValueDifference, ...] = ()
        """Those that each rank updates on its own, with the values that differed first."""

    def faults(self, seen: ByRank, found: Sequence[ValueDifference]) -> tuple[ValueDifference, ...]:
        """Of the buffers that differ at the next step, `found`, those that should not.

        One that wrappers leave to the ranks may differ, but where some ranks alone have written it, and others kept it. Where
        all have written as often, the bytes that a rank kept are what it wrote: a running maximum. Without a wrapper (FSDP2,
        HSDP) it must have stayed as it was on all ranks before, and a rank must have kept it without writing it. A step of
        which a rank has yet to write who wrote what shows no fault: the job still runs, or was ended there.
        """
        written = written_on_some_ranks(seen, self._before)
        by_some = {name for name in written if self._is_by_some(name, seen)}
        self._remember(seen)
        own = {one.name for one in found if self._is_left_to_ranks(one.name)} - by_some
        if self._is_wrapped:
            self.own = self.own or tuple(one for one in found if one.name in own)
        return tuple(replace(one, changed_on=written.get(one.name, ())) for one in found if one.name not in own)

    def _is_by_some(self, name: str, seen: ByRank) -> bool:
        if self._is_wrapped:
            if _is_torn(seen, self._before):
                return False
            return not writes_since(name, seen, self._before)
        return self._unchanged[name] >= LEAST_UNCHANGED and is_kept_by_a_rank(name, seen, self._before)

    def _is_left_to_ranks(self, name: str) -> bool:
        return not self._is_wrapped or name in self._ignored or model_prefix(name) in self._left_to_ranks

    def _remember(self, seen: ByRank) -> None:
        before, self._before = self._before, seen
        for name in next(iter(before.values())).buffers if before else ():
            then = {one.buffers.get(name) for one in before.values()}
            now = {one.buffers.get(name) for one in seen.values()}
            if len(then) == len(now) == 1 and None not in now:
                self._unchanged[name] = 0 if then != now else self._unchanged[name] + 1


def _is_torn(seen: ByRank, before: ByRank) -> bool:
    """Whether the writes of a step, which ranks note after it, are not known of some rank, and were at the step before."""
    return any(one.integrity is None and before[rank].integrity is not None for rank, one in seen.items())
