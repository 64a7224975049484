"""Reads, in the source of a program, where values come from that ranks recorded, and which statements write into tensors."""

from __future__ import annotations

import ast
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import takewhile
from typing import NamedTuple

from ddpdoctor.evidence.frames import Frame, is_users
from ddpdoctor.evidence.value_chains import DRAWS, HOOK, LOADER, CodeLine, ValueChain, ValueChains
from ddpdoctor.source.chains.backwards import Backwards
from ddpdoctor.source.chains.causes import Cause, Search
from ddpdoctor.source.chains.lines import code_line
from ddpdoctor.source.chains.points import Point
from ddpdoctor.source.chains.setup_calls import epoch_calls, scales_of_hook, sharded_models
from ddpdoctor.source.chains.tensor_writes import TensorWrites
from ddpdoctor.source.names.dotted_names import dotted
from ddpdoctor.source.program.index import Index
from ddpdoctor.source.program.project import Project, Source
from ddpdoctor.source.program.reading import Loader, all_sources, sources_in
from ddpdoctor.source.python_text import Unreadable
from ddpdoctor.source.stack_lines.source_files import source_bytes
from ddpdoctor.source.syntax.scopes import RawCall, Scope

MOST_FILES = 64
MOST_BYTES = 256 << 10  # of one file
MOST_SECONDS = 3.0  # of processor time: a report does not wait longer for what would be told beside it
_DRAWN_WITH = frozenset(
    {"manual_seed", "seed", "randperm", "shuffle", "permutation", "default_rng", "Random", "RandomState"}
)
"""What a sampler draws an order with."""


class Question(NamedTuple):
    """What is asked of a line."""

    at: Frame
    """The line of a call, or of an assignment to a key; of `draws` the first one of a function."""
    argument: str = ""
    """The argument of the call; empty for all that it is given; `draws` for all that the function draws numbers with,
    `hook` for the function that a communication hook is."""


def chains_of(questions: Iterable[Question], files: Iterable[str] = ()) -> ValueChains | None:
    """The answers that the source gives, and the statements that write into tensors; None where no file can be read.

    `files` are those of the program that are known, beside those of the questions; what they import is read, too.
    """
    asked = [one for one in questions if is_users(one.at.file)]
    named = {file for file in (*files, *(one.at.file for one in asked)) if is_users(file)}
    loader = Loader(MOST_FILES)
    project = Project(load=loader)
    for file in sorted(named):
        project.sources |= {source.file: source for source in _read(file)}
    if not project.sources:
        return None
    index = Index(project)
    sources = list(all_sources(project))
    for source in sources:
        index.add(source)
    index.link()
    is_whole = bool(loader.left) and named <= project.sources.keys()
    try:
        return _answers(
            asked, Backwards(index), [scope for source in sources for scope in source.scopes], is_whole=is_whole
        )
    except RecursionError:
        return None
    finally:
        project.release()


def _answers(asked: Iterable[Question], back: Backwards, scopes: Sequence[Scope], *, is_whole: bool) -> ValueChains:
    """What is found in a limited time; of statements that only count together all or none."""
    back.ends = ends = time.process_time() + MOST_SECONDS
    in_time = partial(takewhile, lambda _: time.process_time() < ends)
    chains = [chain for one in in_time(sorted(asked, key=_order)) if (chain := _answer(one, back)) is not None]
    writes = [*in_time(TensorWrites(back).of(scopes if is_whole else ()))]
    is_whole = is_whole and time.process_time() < ends
    return ValueChains(
        chains=tuple(chains),
        writes=tuple(writes) if is_whole else (),
        epoch_calls=tuple(epoch_calls(back, scopes)) if is_whole else (),
        sharded=sharded_models(back, scopes) if is_whole else (),
        is_whole=is_whole,
    )


def _order(asked: Question) -> tuple[str, int, str]:
    return asked.at.file, asked.at.line, asked.argument


def _read(file: str) -> Iterator[Source]:
    text = source_bytes(file)
    if text is None or len(text) > MOST_BYTES:
        return
    try:
        yield from sources_in(file, text)
    except (Unreadable, RecursionError, MemoryError):
        return


def _answer(asked: Question, back: Backwards) -> ValueChain | None:
    if asked.argument == HOOK:
        return _of_hook(asked, back)
    sinks = [*_sinks(asked, back)]
    if not sinks:
        return None
    cause = Search(back).cause(sinks)
    origin = Search(back).origin(sinks[0]) if asked.argument and len(sinks) == 1 else None
    if asked.argument == LOADER:
        return ValueChain(at=asked.at, argument=LOADER, origin=_loader(back, origin))
    return ValueChain(
        at=asked.at,
        argument=asked.argument,
        entry=_shown(back, cause.entry) if cause is not None else None,
        reads=cause.reads.value if cause is not None else "",
        test=_tested(back, cause),
        origin=_shown(back, origin) if origin is not None else None,
    )


def _loader(back: Backwards, origin: Point | None) -> CodeLine | None:
    """Where a data loader is made; None of anything else."""
    made = origin is not None and isinstance(origin.node, ast.Call) and dotted(origin.node.func).endswith("Loader")
    return _shown(back, origin) if origin is not None and made else None


def _of_hook(asked: Question, back: Backwards) -> ValueChain | None:
    """The function that a hook is, and where it alone scales by something else than the number of ranks."""
    for hook in _sinks(asked, back):
        if (found := scales_of_hook(back, hook)) is not None:
            function, scales = found
            lines = [code_line(back.index, scope, node) for scope, node in scales]
            source = back.index.project.sources[function.file]
            file, line = source.place(_first(function.node))
            written = CodeLine(file=file, line=line, function=function.name, text=f"def {function.name}")
            return ValueChain(at=asked.at, argument=HOOK, entry=lines[0] if len(lines) == 1 else None, origin=written)
    return None


def _shown(back: Backwards, point: Point) -> CodeLine:
    return code_line(back.index, point.scope, point.node)


def _tested(back: Backwards, cause: Cause | None) -> CodeLine | None:
    if cause is None or cause.test is None:
        return None
    test = cause.test
    return code_line(back.index, test.to.scope, test.to.node, test.decides)


def _sinks(asked: Question, back: Backwards) -> Iterator[Point]:
    """The expressions that decide what is asked for."""
    for scope in _functions(asked.at, back.index.project.sources.values()):
        if asked.argument == DRAWS:
            for call in scope.calls:
                if call.method in _DRAWN_WITH:
                    yield from _arguments(call, scope, ())
            continue
        if asked.argument == LOADER:
            for loop in scope.loops:
                if isinstance(loop.node, ast.For) and loop.node.lineno == asked.at.line:
                    yield Point(loop.node.iter, scope, loop.order, loop.block)
            continue
        calls = [call for call in scope.calls if call.node.lineno <= asked.at.line <= (call.node.end_lineno or 0)]
        if calls:
            outermost = max(calls, key=lambda call: call.order)
            yield from _arguments(outermost, scope, (asked.argument,) if asked.argument else ())
        for write in scope.writes:
            if write.target.lineno <= asked.at.line <= (write.value.end_lineno or 0):
                at = Point(write.value, scope, write.order, write.block)
                yield at
                yield from (edge.to for edge in back.around(scope, write.order, write.block, at))


def _functions(at: Frame, sources: Collection[Source]) -> Iterator[Scope]:
    """The functions of this name around a line, the innermost one alone."""
    around = [
        scope
        for source in sources
        if source.file == at.file
        for scope in source.scopes
        if scope.name == at.function
        and _first(scope.node) <= at.line <= (getattr(scope.node, "end_lineno", None) or at.line)
    ]
    yield from around[-1:]


def _first(node: ast.AST) -> int:
    return int(getattr(node, "lineno", 0))


def _arguments(call: RawCall, scope: Scope, names: Collection[str]) -> Iterator[Point]:
    """What a call is given: the arguments of these names, or all where it has none of them."""
    node = call.node
    at = Point(node, scope, call.order, call.block)
    given = [one for one in node.keywords if one.arg in names]
    if given:
        yield from (at.at(one.value) for one in given)
        return
    if not node.args and isinstance(node.func, ast.Attribute) and names:
        yield at.at(node.func.value)
    yield from (
        at.at(one) for one in (*node.args, *(one.value for one in node.keywords if one.arg is None or not names))
    )
    if isinstance(node.func, ast.Attribute) and not names:
        yield at.at(node.func.value)
