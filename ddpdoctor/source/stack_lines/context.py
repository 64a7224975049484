"""Reads where lines stand in the user's source files, where those are at hand."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from ddpdoctor.evidence.frames import Frame, is_programs, is_users
from ddpdoctor.evidence.source import Branches, CodePlace, Loop, RankValue, Request, SourceCode
from ddpdoctor.source.stack_lines.calls_before_line import branches_before, collectives_before, comes_straight
from ddpdoctor.source.stack_lines.conditions_around import ConditionsAround, signal_handlers
from ddpdoctor.source.stack_lines.excerpts import excerpt_at
from ddpdoctor.source.stack_lines.framework_requests import wanted_by
from ddpdoctor.source.stack_lines.group_arguments import passes_a_group
from ddpdoctor.source.stack_lines.rank_dataflow import names_of_the_rank, values_by_rank
from ddpdoctor.source.stack_lines.source_files import source_bytes, source_lines
from ddpdoctor.source.stack_lines.waiting_loops import awaited
from ddpdoctor.source.stack_lines.ways_out import exits_before, jumps_of_loop
from ddpdoctor.source.syntax.code_text import short
from ddpdoctor.source.syntax.loop_counters import counter_of, turns_are_fixed
from ddpdoctor.source.syntax.scopes import RawLoop, RawStatement, Scope
from ddpdoctor.source.syntax.walk import walk

WITHOUT_A_TEST = frozenset({"accumulate", "setting"})
"""What requests tell, also where no condition decides who makes them."""
MAX_BESIDE = 16  # modules that are read only for what they ask of a framework
MAX_BYTES_BESIDE = 100_000  # of each
MAX_STATEMENT = 400  # characters of a statement that is looked through for the names in it


def source_of(frames: Iterable[Frame], owner: int | None = None) -> SourceCode | None:
    """The places of the user's own and of frameworks' frames among `frames`, or None where none of their files can be read.

    With `owner`, only files count that this user may read. A frame whose function is not the one that stands at its line is
    left out: the file has changed since.
    """
    wanted = sorted({(frame.file, frame.line, frame.function) for frame in frames if is_programs(frame.file)})
    places: list[CodePlace] = []
    requests: list[Request] = []
    beside: set[str] = set()
    for file, lines in itertools.groupby(wanted, key=lambda frame: frame[0]):
        text = source_bytes(file, owner)
        found = _index(file, text) if text is not None else None
        if found is not None:
            if is_users(file):
                requests += found.requests()
                beside.update(_modules_beside(file, found.scopes))
            places += [
                place
                for _, line, function in lines
                if (place := found.at(line)) is not None and place.function == function
            ]
    requests += _asked_beside(sorted(beside - {file for file, _, _ in wanted}), owner)
    return SourceCode(places=tuple(places), requests=tuple(requests)) if places else None


def _modules_beside(file: str, scopes: Sequence[Scope]) -> Iterator[str]:
    """The files in the folder of this one that it imports by name: a framework calls what they define, below no line of it."""
    for scope in scopes:
        for module in {name.partition(".")[0] for name in (*scope.imports.values(), *scope.modules)}:
            path = Path(file).with_name(f"{module}.py") if module.isidentifier() else None
            if path is not None and path.is_file():
                yield str(path)


def _asked_beside(files: Sequence[str], owner: int | None) -> Iterator[Request]:
    """The requests in these files that a loop or the program ends."""
    for file in files[:MAX_BESIDE]:
        text = source_bytes(file, owner)
        found = _index(file, text) if text is not None and len(text) <= MAX_BYTES_BESIDE else None
        yield from (one for one in found.requests() if one.wants == "stop") if found is not None else ()


def _index(file: str, text: bytes) -> _Index | None:
    try:
        tree = ast.parse(text)
        return _Index(file, source_lines(text), names_of_the_rank(tree), walk(tree, file))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


@dataclass(frozen=True)
class _Index:
    """Every statement of a file with the block that it stands in, as `walk` found them for `lint`, too."""

    file: str
    lines: list[str]
    ranks: Mapping[str, ast.expr | None]
    """The names that hold the rank, with their values."""
    scopes: list[Scope]

    @cached_property
    def conditions(self) -> ConditionsAround:
        """Finds the conditions around its statements."""
        return ConditionsAround(self.ranks, signal_handlers(self.scopes))

    def requests(self) -> Iterator[Request]:
        """Those of the whole file that stand under a condition, that ask to accumulate, or that write a setting."""
        for scope in self.scopes:
            for found in scope.statements:
                wants = wanted_by(found.node)
                conditions = self.conditions.of(found, scope) if wants is not None else ()
                if wants is not None and (conditions or wants in WITHOUT_A_TEST):
                    yield Request(
                        file=self.file,
                        line=found.node.lineno,
                        function=scope.name,
                        text=ast.unparse(found.node).partition("\n")[0][:MAX_STATEMENT],
                        wants=wants,
                        conditions=conditions,
                    )

    def at(self, line: int) -> CodePlace | None:
        """The innermost statement at a line; of `if rank == 0: save()` on one line the deepest."""
        around = [
            (found, scope)
            for scope in self.scopes
            for found in scope.statements
            if found.node.lineno <= line <= (found.node.end_lineno or found.node.lineno)
        ]
        if not around:
            return None
        found, scope = min(around, key=_size)
        first, excerpt = excerpt_at(self.lines, line)
        return CodePlace(
            file=self.file,
            line=line,
            function=scope.name,
            loops=tuple(self._loop(loop, scope) for loop in scope.loops_around(found.block)),
            conditions=self.conditions.of(found, scope),
            exits=tuple(exits_before(found, scope, self.conditions)),
            calls=tuple(short(call.func) for call in _called_by(found.node)),
            rank_values=tuple(self._rank_values(scope, line)),
            collectives=tuple(collectives_before(found, scope)),
            straight=comes_straight(found, scope),
            branches=tuple(self._branches(found, scope)),
            grouped=any(passes_a_group(call) for call in _called_by(found.node)),
            excerpt=excerpt,
            excerpt_from=first,
        )

    def _branches(self, found: RawStatement, scope: Scope) -> Iterator[Branches]:
        for block, taken, other in branches_before(found, scope):
            condition = self.conditions.of_block(block)
            if condition is not None:
                yield Branches(condition=replace(condition, branch=0), taken=taken, other=other)

    def _rank_values(self, scope: Scope, line: int) -> Iterator[RankValue]:
        """Those of a function, up to `line`, the nearest first; of compound statements only those in the heads of its loops."""
        for found in reversed(scope.statements):
            is_head = isinstance(found.node, ast.For | ast.AsyncFor) and line <= (found.node.end_lineno or 0)
            if found.node.lineno <= line and (is_head or not hasattr(found.node, "body")):
                keywords = {
                    id(node.value): node.arg or "" for node in ast.walk(found.node) if isinstance(node, ast.keyword)
                }
                targets = tuple(short(target) for target in getattr(found.node, "targets", ()))
                values = [*values_by_rank(found.node, self.ranks)]
                # two values are the ends of a rank's share, whose length is the same on all ranks
                stop = _stop(found.node) if len(values) == 1 else None
                for value, compares in values:
                    yield RankValue(
                        line=value.lineno,
                        text=short(value),
                        targets=targets,
                        compares=compares,
                        keyword=keywords.get(id(value), ""),
                        in_head=stop is not None and value in ast.walk(stop),
                    )

    def _loop(self, loop: RawLoop, scope: Scope) -> Loop:
        jumps = tuple(sorted(jumps_of_loop(loop, scope, self.conditions), key=lambda jump: jump.line))
        condition = awaited(loop.node)
        return Loop(
            line=loop.node.lineno,
            head=_head(loop.node),
            skips=tuple(jump.line for jump in jumps if jump.word == "continue"),
            jumps=jumps,
            awaits=short(condition) if condition is not None else "",
            counter=counter_of(loop.node),
            fixed=turns_are_fixed(loop.node, scope),
        )


def _size(found: tuple[RawStatement, Scope]) -> tuple[int, int]:
    """How many lines a statement has, and of equally long ones how deep it stands, the deepest first."""
    node, block = found[0].node, found[0].block
    return (node.end_lineno or node.lineno) - node.lineno, -block.depth


def _stop(node: ast.stmt) -> ast.expr | None:
    """The end of the `range` that a loop goes over."""
    match node:
        case ast.For(iter=ast.Call(func=ast.Name(id="range"), args=[stop] | [_, stop, *_])):
            return stop
        case _:
            return None


def _called_by(statement: ast.stmt) -> Iterator[ast.Call]:
    """The calls of a statement; of a compound one those of its head."""
    head = [child for child in ast.iter_child_nodes(statement) if isinstance(child, ast.expr | ast.withitem)]
    return (node for part in head for node in ast.walk(part) if isinstance(node, ast.Call))


def _head(node: ast.For | ast.AsyncFor | ast.While) -> str:
    if isinstance(node, ast.While):
        return f"while {short(node.test)}"
    return f"for {short(node.target)} in {short(node.iter)}"
