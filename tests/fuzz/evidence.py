"""Hypothesis strategies that draw any evidence that the schema admits: every kind, every field, absurd values included."""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from hypothesis import reject
from hypothesis import strategies as st

from ddpdoctor.evidence import Evidence, Missing, RankFacts, kinds
from ddpdoctor.evidence.bench import BenchRank, CollectiveBench, RankTiming, SizeTiming, WrongValues
from ddpdoctor.evidence.bounds import MOST_RANKS
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.recorder import Call, FlightRecord, ProcessGroup, State

SMALL = st.integers(0, 4)
NUMBERS = st.one_of(
    SMALL, SMALL, SMALL, st.sampled_from([-1, -5, 255, 4096, 29500, 2**31, -(2**63), 2**63 - 1, 10**9, 10**18])
)
FLOATS = st.one_of(
    st.floats(0, 100), st.sampled_from([0.0, -1.0, 1e-300, 1e300, float("nan"), float("inf"), -float("inf")])
)
WORDS = (
    *("", "0", "a", "b", "S", "D", "T", "-1", "1,2", "{}", "[1, 2", "1e400", "999999999999999999999", "a.b.c", "29500"),
    *("gpu01", "host-a", "eth0", "10.0.0.1", "127.0.0.1", "::1", "fe80::1%eth0", "torchrun", "Slurm", "2.13.0", "13.0"),
    *(
        "all_reduce",
        "nccl:all_reduce",
        "nccl:broadcast",
        "gloo:barrier",
        "completed",
        "scheduled",
        "started",
        "default_pg",
    ),
    *(
        "train.py",
        "/job/train.py",
        "python train.py",
        "forward",
        "WORLD",
        "float32",
        "weight",
        "layer.0.bias",
        "3.11.7",
    ),
    *("MASTER_ADDR", "MASTER_PORT", "RuntimeError", "[rank0]: NCCL WARN x", "550.54.15", "\udc80", "é" * 40),
    "x\n\x1b[2Jno findings (30 checks ran)\n::error::x",
)
TEXTS = st.one_of(st.sampled_from(WORDS), st.sampled_from(WORDS), st.text(max_size=12))


@cache
def of_type(kind: Any) -> st.SearchStrategy[Any]:
    """Any value of an annotation that a field of evidence has."""
    simple = {
        int: NUMBERS,
        float: FLOATS,
        str: TEXTS,
        bool: st.booleans(),
        type(None): st.none(),
        bytes: st.binary(max_size=16),
    }
    if kind in simple:
        return simple[kind]
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Literal:
        return st.sampled_from(inner)
    if origin in {typing.Union, types.UnionType}:
        return st.one_of(*map(of_type, inner))
    if origin is tuple and inner[-1:] != (Ellipsis,):
        return st.tuples(*map(of_type, inner))
    if origin in {tuple, Sequence, Collection, frozenset}:
        items = st.lists(of_type(inner[0]), max_size=3)
        return items.map(frozenset) if origin is frozenset else items.map(tuple)
    if origin in {Mapping, dict}:
        return st.dictionaries(of_type(inner[0]), of_type(inner[1]), max_size=3)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return st.sampled_from(list(kind))
    if dataclasses.is_dataclass(kind):
        return st.deferred(lambda: _of_dataclass(kind))
    if kind in {Any, object}:
        return st.one_of(NUMBERS, TEXTS, st.none())
    raise TypeError(f"evidence has a field of type {kind}, for which tests/fuzz/evidence.py knows no strategy")


def _of_dataclass(kind: Any) -> st.SearchStrategy[Any]:
    """Any instance, without those that the class itself refuses."""
    return _COUPLED[kind]() if kind in _COUPLED else _made(kind, _fields(kind))


def _fields(kind: Any) -> dict[str, st.SearchStrategy[Any]]:
    hints = typing.get_type_hints(kind)
    return {field.name: of_type(hints[field.name]) for field in dataclasses.fields(kind) if field.init}


@st.composite
def _made(draw: st.DrawFn, kind: Any, given: Mapping[str, st.SearchStrategy[Any]]) -> Any:
    values = {name: draw(value) for name, value in given.items()}
    try:
        return kind(**values)
    except ValueError:
        reject()


@st.composite
def _records(draw: st.DrawFn) -> FlightRecord:
    """Columns of one length whose positions exist."""
    groups, frames = (
        draw(st.lists(of_type(ProcessGroup), min_size=1, max_size=3)),
        draw(st.lists(of_type(Frame), max_size=3)),
    )
    calls = draw(st.lists(of_type(Call), max_size=3))
    calls = [dataclasses.replace(call, group=draw(st.integers(0, len(groups) - 1))) for call in calls]
    stacks = draw(
        st.lists(st.lists(st.integers(0, max(0, len(frames) - 1)), max_size=len(frames) and 2), min_size=1, max_size=3)
    )
    length = draw(st.integers(0, 6)) if calls else 0

    def column(values: st.SearchStrategy[Any]) -> tuple[Any, ...]:
        return tuple(draw(st.lists(values, min_size=length, max_size=length)))

    return FlightRecord(
        version=draw(TEXTS),
        taken_at=draw(of_type(float | None)),
        groups=tuple(groups),
        calls=tuple(calls),
        frames=tuple(frames),
        stacks=tuple(map(tuple, stacks)),
        lost=draw(NUMBERS),
        call=column(st.integers(0, max(0, len(calls) - 1))),
        seq=column(st.one_of(SMALL, SMALL, NUMBERS)),
        stack=column(st.integers(0, len(stacks) - 1)),
        state=column(st.sampled_from(list(State))),
        created_ns=column(NUMBERS),
    )


@st.composite
def _benches(draw: st.DrawFn) -> CollectiveBench:
    """Every rank timed at every size."""
    bench = {name: draw(value) for name, value in _fields(CollectiveBench).items()}
    places, rounds = draw(st.integers(1, 4)), draw(st.integers(0, 3))
    own = st.lists(st.floats(1e-6, 10), min_size=rounds, max_size=rounds).map(tuple)
    ranks = [
        dataclasses.replace(draw(of_type(BenchRank)), work_seconds=draw(own), work_on_cpu=draw(own))
        for _ in range(places)
    ]
    seconds = st.lists(st.floats(1e-9, 100), min_size=1, max_size=4).map(lambda each: tuple(sorted(each)))
    sizes = [
        dataclasses.replace(
            size,
            ranks=tuple(draw(of_type(RankTiming)) for _ in range(places)),
            seconds=draw(seconds),
            mean_seconds=draw(st.floats(1e-9, 100)),
            iterations=draw(st.integers(1, 9)),
        )
        for size in draw(st.lists(_made(SizeTiming, _fields(SizeTiming)), max_size=3))
    ]
    wrong = [
        dataclasses.replace(each, rank=draw(st.integers(0, places - 1)))
        for each in draw(st.lists(of_type(WrongValues), max_size=2))
    ]
    return CollectiveBench(**{**bench, "ranks": tuple(ranks), "sizes": tuple(sizes), "wrong": tuple(wrong)})


_COUPLED: Mapping[Any, Any] = {FlightRecord: _records, CollectiveBench: _benches}


@st.composite
def evidence(draw: st.DrawFn, only: tuple[str, ...] = ()) -> Evidence:
    """Evidence of one to eight kinds, about the job and of up to four ranks; with `only`, of these kinds."""
    names = draw(st.lists(st.sampled_from(only or sorted(kinds())), min_size=1, max_size=8, unique=True))
    chosen = [of_type(kinds()[name]) for name in names]
    job = tuple(draw(kind) for kind in chosen if draw(st.booleans()))
    ranks = draw(st.lists(st.one_of(SMALL, SMALL, st.sampled_from([-1, 4095, MOST_RANKS])), max_size=4, unique=True))
    return Evidence(
        job=job,
        ranks=tuple(
            RankFacts(
                rank=rank,
                host=draw(st.sampled_from(WORDS)),
                facts=tuple(draw(kind) for kind in chosen if draw(st.integers(0, 3))),
            )
            for rank in ranks
        ),
        missing=tuple(draw(st.lists(of_type(Missing), max_size=2))),
        launched=draw(st.booleans()),
        about_job=draw(st.booleans()),
    )


@cache
def examples() -> tuple[Evidence, ...]:
    """The evidence of every sick and healthy example of every rule."""
    folder = Path(__file__).parents[1] / "checks"
    modules = (import_module(f"tests.checks.{file.stem}") for file in sorted(folder.glob("ddp*.py")))
    each = [example for module in modules for example in (*module.SICK, *module.HEALTHY)]
    found = [getattr(example, "evidence", example) for example in each]
    return tuple(one for one in found if isinstance(one, Evidence))


@st.composite
def changed(draw: st.DrawFn) -> Evidence:
    """The evidence of an example in which up to four values are replaced by any others that the schema admits."""
    found: Any = draw(st.sampled_from(examples()))
    for _ in range(draw(st.integers(1, 4))):
        found = _changed(draw, found, Evidence)
    return found  # type: ignore[no-any-return]


def _changed(draw: st.DrawFn, value: Any, kind: Any) -> Any:
    """`value`, somewhere in which one value is another one; `kind` is its annotation."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        hints = typing.get_type_hints(type(value))
        names = [field.name for field in dataclasses.fields(value) if field.init]
        if not names:
            return value
        name = draw(st.sampled_from(names))
        try:
            return dataclasses.replace(value, **{name: _changed(draw, getattr(value, name), hints[name])})
        except ValueError:
            reject()
    inner = (
        kind
        if typing.get_origin(kind) is tuple
        else next(
            (one for one in typing.get_args(kind) if isinstance(value, tuple) and typing.get_origin(one) is tuple), kind
        )
    )
    if isinstance(value, tuple) and value and draw(st.integers(0, 7)):
        place = draw(st.integers(0, len(value) - 1))
        arguments = typing.get_args(inner)
        of_item = arguments[0] if arguments[-1:] == (Ellipsis,) else arguments[place] if len(arguments) > place else Any
        return (*value[:place], _changed(draw, value[place], of_item), *value[place + 1 :])
    if kind is Any or inner is Any:
        return value
    if isinstance(value, tuple) and any(part in repr(inner) for part in ("RankFacts", "Any")):
        return value[: draw(st.integers(0, len(value)))]
    return draw(of_type(inner))
