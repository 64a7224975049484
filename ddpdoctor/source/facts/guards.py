"""The tests that decide whether a place of a function is reached: conditions, early exits and decorators."""

from __future__ import annotations

import ast
from bisect import bisect_left
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from operator import itemgetter

from ddpdoctor.analysis.training_code.guards import may_ask_for_rank
from ddpdoctor.evidence.code_values import RANK_KINDS, Kind, Origin, Value
from ddpdoctor.evidence.training_code import Guard
from ddpdoctor.source.dataflow.chosen_values import truth
from ddpdoctor.source.dataflow.decided_branches import is_dead, is_taken
from ddpdoctor.source.dataflow.origins import At, joined
from ddpdoctor.source.dataflow.returned_values import returned
from ddpdoctor.source.dataflow.values import Values
from ddpdoctor.source.names import rank_names
from ddpdoctor.source.names.dotted_names import dotted, names_in
from ddpdoctor.source.program.classes import class_named
from ddpdoctor.source.syntax.scopes import Block, Scope

MOST_EXITS = 30  # early exits before a line that are looked at: generated code has thousands in one function
_ORDER = itemgetter(0)
_FLIP = {"first": "others", "others": "first"}

_TELL_FILES = frozenset({"exists", "isfile", "isdir", "is_file", "is_dir"})


def line_of(values: Values, scope: Scope, line: int) -> tuple[str, int]:
    """The file and the line of the user's that a line of a scope is: a cell of a notebook has lines of its own."""
    return values.project.sources[scope.file].place(line)


def value_of(values: Values, node: ast.expr | None, at: At) -> Value:
    """What is known of an expression, as a fact."""
    return Value(text=values.text(node, at.scope), origins=values.of(node, at))


@dataclass(eq=False)
class Guards:
    """Makes the facts about tests, once for each block and calling context."""

    values: Values
    """Tells what tests can be."""
    _made: dict[tuple[int, int], Guard | None] = field(default_factory=dict)
    _around: dict[tuple[int, int, tuple[int, ...]], tuple[Guard, ...]] = field(default_factory=dict)
    """By block, calling context, and how many branches of each block around it have left before."""

    def around(self, block: Block, order: int, scope: Scope) -> tuple[Guard, ...]:
        """The tests that decide whether a place is reached, outermost first."""
        chain = block.chain()
        passed = tuple([bisect_left(at.ended, order, key=_ORDER) if at.ended else 0 for at in chain])
        key = (id(block), id(self.values.context_in(scope)), passed)
        if key not in self._around:
            self._around[key] = tuple(self._found_around(chain, passed, scope))
        return self._around[key]

    def _found_around(self, chain: tuple[Block, ...], passed: tuple[int, ...], scope: Scope) -> Iterator[Guard]:
        for at, inner, before in zip(chain, [*chain[1:], None], passed, strict=True):
            if (
                at.form in {"if", "else", "case", "while", "and", "or", "except"}
                and not is_taken(self.values, at, scope)
                and (guard := self._of(at, scope)) is not None
            ):
                yield guard
            for _, ended in at.ended[max(0, before - MOST_EXITS) : before]:
                if ended is not inner and (guard := self._of(ended, scope, after=True)) is not None:
                    yield guard

    def after_a_look(self, files: AbstractSet[str], block: Block, order: int, scope: Scope) -> Iterator[Guard]:
        """The tests for one of these files by which a function has left before a place: `if exists(out): return out`."""
        for at in block.chain():
            for place, ended in at.ended[-MOST_EXITS:]:
                left = place < order and not block.inside(ended) and ended.form == "if"
                guard = self._new(ended, scope, after=True) if left and _looked_for(ended.test) in files else None
                if guard is not None:
                    yield guard

    def uncalled(self, block: Block, scope: Scope) -> Guard | None:
        """The test of a block, where it is a function that nobody calls."""
        guard = self._of(block, scope)
        return guard if guard is not None and guard.value.may(Kind.FUNCTION) is not None else None

    def tested(self, test: ast.expr, at: At, *, chosen: bool = False) -> Value:
        """What a test depends on; `chosen`: that of a `case`."""
        value = _as_test(self.truth(value_of(self.values, test, at), chosen=chosen))
        if _asks_for_none(test):  # what an object holds does not decide whether there is one
            value = replace(value, origins=tuple(one for one in value.origins if one.kind is not Kind.LOCAL))
        return value

    def _of(self, block: Block, scope: Scope, *, after: bool = False) -> Guard | None:
        key = (id(block) * 2 + after, id(self.values.context_in(scope)))
        if key not in self._made:
            self._made[key] = self._behind(block, scope) if after else self._new(block, scope, after=False)
        return self._made[key]

    def _behind(self, ended: Block, scope: Scope) -> Guard | None:
        """The test that some ranks leave by at the end of a block: it decides about what comes behind the block."""
        if ended.form not in {"if", "else", "case"} or is_dead(self.values, ended, scope):
            return None
        guard = self._new(ended, scope, after=True)
        return guard if guard is not None and (guard.by_rank or guard.by_local or may_ask_for_rank(guard)) else None

    def _new(self, block: Block, scope: Scope, *, after: bool) -> Guard | None:
        test = block.test if block.test is not None else getattr(block.node, "test", None)
        if block.form == "except":
            line = block.handler.lineno if block.handler is not None else 1
            file, line = line_of(self.values, scope, line)
            text = self.values.text(test, scope) if test is not None else ""
            return Guard(form="except", file=file, line=line, test=text, branch=block.branch, value=Value())
        if test is None:
            return None
        if isinstance(test, ast.Compare) and "__name__" in (self.values.text(test, scope)):
            return Guard(
                form="main", file=scope.file, line=test.lineno, test="__name__", branch=0, value=Value(), state=True
            )
        at = At(scope, block.order, block.parent or block)
        value = self.tested(test, at, chosen=block.form == "case")
        words = tuple(dict.fromkeys(names_in(test)))
        ranked = value.may(*RANK_KINDS)
        unsure = ranked is not None and ranked.note == "uncertain"
        state = (ranked is None or unsure) and (
            any(word in name.lower() for name in words for word in rank_names.STATE_WORDS)
            or self._counts_ranks(test, at)
        )
        file, line = line_of(self.values, scope, getattr(block.node, "lineno", test.lineno))
        form = "after" if after else block.form
        return Guard(
            form=form,
            file=file,
            line=line if form == "after" else line_of(self.values, scope, test.lineno)[1],
            test=self.values.text(test, scope),
            branch=block.branch,
            value=value,
            names=words,
            of_rank=_of_rank(ranked, block, after=after),
            state=state,
        )

    def _counts_ranks(self, test: ast.expr, at: At) -> bool:
        """Whether a test compares the world size with a number, whatever its name is."""
        match test:
            case ast.Compare(left=ast.Name() | ast.Attribute() as size, comparators=[ast.Constant(value=int())]):
                return any(one.kind is Kind.WORLD_SIZE and not one.note for one in self.values.of(size, at))
        return False

    def truth(self, value: Value, *, chosen: bool = False) -> Value:
        """What a test depends on where it asks an object of the program whose class says when it is true.

        A choice between two members counts in a `match` alone: elsewhere both are true, or both are false.
        """
        found = list(value.origins if chosen else truth(value.origins))
        for origin in value.origins:
            cls = class_named(self.values.project, origin.note) if origin.kind is Kind.INSTANCE else None
            asked = self.values.project.method(cls, "__bool__") if cls is not None else None
            if asked is not None:
                found += returned(self.values, asked)
        return replace(value, origins=joined(found))

    def of_decorators(self, scope: Scope) -> Iterator[Guard]:
        """The tests of the rank around a function that its decorators make."""
        for decorator in scope.decorators:
            node = decorator.func if isinstance(decorator, ast.Call) else decorator
            name = dotted(node)
            if not name:
                continue
            meant = self.values.project.resolve(scope.parent or scope, name)
            inner = self._guarded_by(meant) if isinstance(meant, Scope) else None
            if inner is None and isinstance(meant, Scope) and isinstance(decorator, ast.Call):
                given = (self._guarded_by(made) for made in meant.functions.values())  # `@main_only(wait=True)`
                inner = next((guard for guard in given if guard is not None), None)
            if inner is not None or name.rpartition(".")[2] in rank_names.RANK_DECORATORS:
                file, line = line_of(self.values, scope, decorator.lineno)
                origin = Origin(kind=Kind.RANK, text=f"@{name}", note="first")
                yield Guard(
                    form="decorator", file=file, line=line, test=f"@{name}", branch=0, of_rank="first",
                    value=Value(text=f"@{name}", origins=(origin,)),
                )  # fmt: skip

    def _guarded_by(self, decorator: Scope) -> Guard | None:
        """The test of the rank around the call of the function that a decorator of the program is given."""
        for inner in decorator.functions.values():
            for call in inner.calls:
                if call.name in decorator.parameters:
                    for guard in self.around(call.block, call.order, inner):
                        if guard.by_rank is not None:
                            return guard
        return None


def _looked_for(test: ast.expr | None) -> str:
    """The name of the file that a test looks for: `not os.path.exists(out)`, `out.exists()`; empty for other tests."""
    while isinstance(test, ast.UnaryOp):
        test = test.operand
    if not isinstance(test, ast.Call) or not isinstance(test.func, ast.Attribute) or test.func.attr not in _TELL_FILES:
        return ""
    return dotted(test.args[0] if test.args else test.func.value)


def _asks_for_none(test: ast.expr) -> bool:
    """Whether a test is `x is None` or `x is not None`."""
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test = test.operand
    return (
        isinstance(test, ast.Compare)
        and all(isinstance(op, ast.Is | ast.IsNot) for op in test.ops)
        and all(isinstance(one, ast.Constant) and one.value is None for one in test.comparators)
    )


def _as_test(value: Value) -> Value:
    """What a name depends on where it is asked whether it holds something: an object of some ranks asks for the rank."""
    if value.may(Kind.SOME_RANKS) is None:
        return value
    origins = (replace(one, kind=Kind.RANK) if one.kind is Kind.SOME_RANKS else one for one in value.origins)
    return replace(value, origins=tuple(origins))


def _of_rank(origin: Origin | None, block: Block, *, after: bool) -> str:
    if origin is None:
        return ""
    note = origin.note
    if note not in _FLIP:
        note = "others" if origin.kind is not Kind.RANK or note == "by name" else ""
    flips = block.form in {"else", "or"}
    if flips:
        note = _FLIP.get(note, "")
    return _FLIP.get(note, "") if after else note
