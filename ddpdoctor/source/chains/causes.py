"""The one place at which what an expression holds begins to depend on the rank, where there is only one."""

from __future__ import annotations

import ast
import heapq
import time
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count

from ddpdoctor.source.chains.backwards import Backwards
from ddpdoctor.source.chains.points import Edge, Point
from ddpdoctor.source.chains.rank_reads import Read, read_at

MOST_POINTS = 2000
_A_TEST = 1000  # steps that count as much as one through a test


@dataclass(frozen=True, slots=True)
class Cause:
    """Where a value begins to depend on something that is not the same in every process."""

    read: Point
    """What is read there: the rank, a clock, a seed."""
    entry: Point
    """The expression that makes something else of the rank; what is read where nothing does, or where it is not the rank."""
    reads: Read
    """What kind of a thing that is."""
    test: Edge | None
    """The test nearest to the value through which it decides; None where the value itself is computed from it."""


@dataclass(eq=False)
class Search:
    """Everything that some expressions come from."""

    back: Backwards
    """Steps back through the program."""
    points: dict[Hashable, Point] = field(default_factory=dict)
    """Every expression that was reached."""
    edges: dict[Hashable, list[tuple[Hashable, Edge]]] = field(default_factory=dict)
    """By expression, what it comes from."""
    reads: dict[Hashable, Read] = field(default_factory=dict)
    """The expressions that read what differs between processes."""
    before: dict[Hashable, tuple[Hashable, Edge]] = field(default_factory=dict)
    """By expression, the step that leads to it on the shortest way."""
    is_whole: bool = True
    """Whether nothing was left out because there was too much."""

    def cause(self, sinks: Iterable[Point]) -> Cause | None:
        """The only cause; None where there are several, or a batch of data may differ."""
        starts = self._walk(sinks)
        if not self.is_whole or Read.BATCH in self.reads.values():
            return None
        same, any_way = self._leading_to_reads(same=True), self._leading_to_reads(same=False)
        found: dict[tuple[str, int], Cause] = {}
        for key, through in self._entries(starts, same, any_way):
            for read in self._reads_behind(through, same):
                is_rank = self.reads[read] in {Read.RANK, Read.PART} and key != through
                entry = self.points[key if is_rank else read]
                found.setdefault(
                    _line(entry), Cause(self.points[read], entry, self.reads[read], self._test_on_the_way(key))
                )
        return next(iter(found.values())) if len(found) == 1 else None

    def depends(self, sinks: Iterable[Point]) -> bool:
        """Whether anything that differs between processes may decide."""
        self._walk(sinks, to_the_first=True)
        return bool(self.reads) or not self.is_whole

    def reached(self, sink: Point) -> Iterator[ast.expr]:
        """Every expression that a value comes from."""
        self._walk([sink])
        return (point.node for point in self.points.values())

    def origin(self, sink: Point) -> Point | None:
        """Where a value is written down, or read, that comes to a place as it is; None where there are several lines.

        Numbers that stand in for it where nothing else is there do not count.
        """
        self._walk([sink])
        ends: dict[tuple[str, int], Point] = {}
        numbers: dict[tuple[str, int], Point] = {}
        seen, pending = {sink.key}, [sink.key]
        while pending:
            key = pending.pop()
            inner = [to for to, edge in self.edges.get(key, ()) if edge.is_same]
            if not inner:
                (numbers if _is_number(self.points[key]) else ends)[_line(self.points[key])] = self.points[key]
            for to in inner:
                if to not in seen:
                    seen.add(to)
                    pending.append(to)
        ends = ends or numbers
        return next(iter(ends.values())) if self.is_whole and len(ends) == 1 else None

    def _walk(self, sinks: Iterable[Point], *, to_the_first: bool = False) -> list[Hashable]:
        """Follow all steps back, those through values first, maybe `to_the_first` read only; the keys of the sinks."""
        number = count()
        self.points |= {sink.key: sink for sink in sinks}
        starts = [*self.points]
        pending = [(0, next(number), key) for key in starts]
        done: set[Hashable] = set()
        while pending:
            cost, _, key = heapq.heappop(pending)
            if key in done:
                continue
            done.add(key)
            if len(done) > MOST_POINTS or time.process_time() > self.back.ends:
                self.is_whole = False
                break
            point = self.points[key]
            read = read_at(point, self.back) or self._part_at(point)
            if read is not None:
                self.reads[key] = read
                if to_the_first:
                    break
                continue
            steps = self.edges.setdefault(key, [])
            for edge in self.back.steps(point):
                to = edge.to.key
                steps.append((to, edge))
                if to not in self.points:
                    self.points[to] = edge.to
                if to not in done:
                    self.before.setdefault(to, (key, edge))
                    heapq.heappush(pending, (cost + (_A_TEST if edge.is_test else 1), next(number), to))
        return starts

    def _part_at(self, point: Point) -> Read | None:
        """Whether an expression takes the rank's own part of something: `files[rank::world_size]`."""
        match point.node:
            case ast.Subscript(slice=ast.Slice() as part):
                bounds = [point.at(one) for one in (part.lower, part.upper, part.step) if one is not None]
                known = self.back.parts
                if bounds and point.key not in known:
                    known[point.key] = False  # while it is sought: a bound may come from the part itself
                    known[point.key] = Search(self.back).depends(bounds)
                return Read.PART if bounds and known[point.key] else None
        return None

    def _leading_to_reads(self, *, same: bool) -> set[Hashable]:
        """The points that lead to a read; `same`: over steps that keep the value as it is."""
        into: dict[Hashable, list[Hashable]] = {}
        for key, steps in self.edges.items():
            for to, edge in steps:
                if edge.is_same or not same:
                    into.setdefault(to, []).append(key)
        found, pending = set(self.reads), [*self.reads]
        while pending:
            for key in into.get(pending.pop(), ()):
                if key not in found:
                    found.add(key)
                    pending.append(key)
        return found

    def _entries(
        self, starts: list[Hashable], same: set[Hashable], any_way: set[Hashable]
    ) -> Iterator[tuple[Hashable, Hashable]]:
        """The points that make something else of what is read, each with the point that holds it as it is."""
        seen: set[Hashable] = set()
        pending = [*starts]
        while pending:
            key = pending.pop(0)
            if key in seen or key not in any_way:
                continue
            seen.add(key)
            if key in same:
                yield key, key
                continue
            for to, _ in self.edges.get(key, ()):
                if to in same:
                    yield key, to
                else:
                    pending.append(to)

    def _reads_behind(self, key: Hashable, same: set[Hashable]) -> set[Hashable]:
        found: set[Hashable] = set()
        seen, pending = {key}, [key]
        while pending:
            at = pending.pop()
            if at in self.reads:
                found.add(at)
                continue
            for to, edge in self.edges.get(at, ()):
                if edge.is_same and to in same and to not in seen:
                    seen.add(to)
                    pending.append(to)
        return found

    def _test_on_the_way(self, key: Hashable) -> Edge | None:
        """The test nearest to the sink on the shortest way from it to a point."""
        found = None
        while key in self.before:
            key, edge = self.before[key]
            found = edge if edge.is_test else found
        return found


def _is_number(point: Point) -> bool:
    return isinstance(point.node, ast.Constant) and not isinstance(point.node.value, str)


def _line(point: Point) -> tuple[str, int]:
    return point.scope.file, point.node.lineno
