"""Ranks wrapped models with different parameters: another number of them, other shapes, or other dtypes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from ddpdoctor.analysis.crashes.failure import Failure, unique_ranks, who
from ddpdoctor.analysis.crashes.failures import Failures
from ddpdoctor.analysis.majority import vote
from ddpdoctor.evidence import Entry, PerRank
from ddpdoctor.evidence.frames import is_users
from ddpdoctor.evidence.ranks import CollectiveCalls, WrappedModel
from ddpdoctor.evidence.source import SourceCode
from ddpdoctor.grouping import grouped
from ddpdoctor.messages import rank_values
from ddpdoctor.messages.majority import tie_note
from ddpdoctor.messages.skipped import NO_CALLS_AND_NO_EXIT
from ddpdoctor.model import ErrorPattern, Finding, Rule, Severity, SkipCheck, Where, group_ranks, measured_by_rank

RULE = Rule(
    code="DDP406",
    name="replicas-not-the-same-model",
    summary="ranks wrapped models that are not the same",
    severity=Severity.FAIL,
    shown_by="the message names parameters whose sizes differ; print the number of parameters on each rank",
    remedy="build the model from the same code and configuration on every rank: no layer that depends on the rank, on local data "
    "(the number of classes found in local files) or on the order of a set",
    explains=("DDP302", "DDP303", "DDP306", "DDP307", "DDP314", "DDP318", "DDP401", "DDP408", "DDP418"),
    errors=(
        ErrorPattern(
            regex=r"DDP expects same model across all ranks(?!.{0,300}inconsistent (?:0|\d{7,}) params)|appears not to match "
            r"(?:sizes|strides)",
        ),
    ),
)

OF_DTYPES = (
    "give the model one dtype on every rank before it is wrapped: no `.half()`, `.double()` or `torch_dtype=` that depends on "
    "the rank"
)
_COUNTS = re.compile(
    r"Rank (?P<one>\d{1,18}) has (?P<has>\d{1,18}) params, while rank "
    r"(?P<other>\d{1,18}) has inconsistent (?P<differs>\d{1,18})(?!\d)"
)
_SHAPE = re.compile(r"params\[(?P<index>\d{1,18})\] in this process with sizes \[(?P<sizes>[^\]]*)\]")


def check(
    failures: Failures | None, calls: PerRank[CollectiveCalls] | None, code: SourceCode | None = None
) -> Iterator[Finding]:
    """The ranks against the majority: the number of parameters of each, the first one that differs, or their dtypes.

    With values that depend on the rank, in the functions that wrap the model and above these lines.

    DDP itself compares numbers and shapes alone. Of the dtypes of wrapped models the agent's notes tell.
    """
    if failures is None and calls is None:
        raise SkipCheck(NO_CALLS_AND_NO_EXIT)
    found = failures.of("DDP406") if failures is not None else ()
    if failures is None or not found:
        yield from _by_dtype(calls or ())
        return
    counts = {rank: count for failure in found for rank, count in _counts(failure)}
    where = [*_values(found[0], code), *(where for failure in found for where in failure.where("wraps its model here"))]
    if len(set(counts.values())) > 1:
        sides = vote(counts)
        by_count = grouped((counts[rank], rank) for rank in (*sides.minority, *sides.majority))
        (count, ranks), *others = by_count.items()
        rest = " and ".join(f"{group_ranks(others_ranks)} {other}" for other, others_ranks in others)
        yield RULE.finding(
            f"the model of {group_ranks(ranks)} has {count} parameters, that of {rest}",
            ranks=sides.minority,
            where=sorted(where, key=lambda one: one.rank is not None and one.rank not in sides.minority),
            parameters=measured_by_rank(counts),
        )
        return
    yield from _by_shape(failures, found, where)


def _by_dtype(calls: Iterable[Entry[CollectiveCalls]]) -> Iterator[Finding]:
    """The first model that ranks wrapped with other dtypes than their peers.

    Equal dtypes of other numbers of parameters are left to DDP, which counts those that it trains: these are all.
    """
    for models in zip(*(_models(entry) for entry in calls), strict=False):
        of_rank = dict(models)
        sides = vote({rank: frozenset(model.dtypes) for rank, model in of_rank.items()})
        if len(sides.sides) < 2 and len({sum(model.dtypes.values()) for model in of_rank.values()}) == 1:
            sides = vote({rank: tuple(sorted(model.dtypes.items())) for rank, model in of_rank.items()})
        if len(sides.sides) < 2:
            continue
        others = [f"those of {group_ranks(ranks)} {_dtypes(of_rank[ranks[0]])}" for ranks in sides.sides[:-1]]
        few = sides.sides[-1]
        yield RULE.finding(
            f"the parameters of {group_ranks(few)} are {_dtypes(of_rank[few[0]])}, {' and '.join(others)}"
            f"{tie_note(tied=sides.tied)}",
            ranks=sides.minority,
            where=[
                Where.at(model.place, rank=rank, note="wraps its model here")
                for rank, model in sorted(of_rank.items(), key=lambda one: (one[0] not in sides.minority, one[0]))
                if model.place is not None
            ],
            remedy=OF_DTYPES,
            dtypes={str(rank): dict(model.dtypes) for rank, model in sorted(of_rank.items())},
        )
        return


def _models(entry: Entry[CollectiveCalls]) -> list[tuple[int, WrappedModel]]:
    return [(entry.rank, model) for model in entry.value.wrapped]


def _dtypes(model: WrappedModel) -> str:
    """`float32`, or of several `12 float32 and 2 bfloat16`."""
    if len(model.dtypes) == 1:
        return next(iter(model.dtypes))
    return " and ".join(f"{count} {dtype}" for dtype, count in model.dtypes.items()) or "none"


def _counts(failure: Failure) -> Iterator[tuple[int, int]]:
    for counts in _COUNTS.finditer(failure.text):
        yield int(counts["one"]), int(counts["has"])
        yield int(counts["other"]), int(counts["differs"])


def _values(failure: Failure, code: SourceCode | None) -> Iterator[Where]:
    """The values that depend on the rank, in the functions of a rank that could not wrap its model."""
    stack = failure.error.stack if failure.error is not None else ()
    return rank_values.in_functions((frame for frame in stack if is_users(frame.file)), None, code)


def _by_shape(failures: Failures, found: tuple[Failure, ...], where: Sequence[Where]) -> Iterator[Finding]:
    """Each rank compares itself with rank 0 alone: where most ranks differ from it, rank 0 is the minority."""
    differ = unique_ranks(found)
    known = {rank for failure in failures.all for rank in failure.ranks} | {*failures.finished, 0}
    sides = vote({rank: rank in differ for rank in known})
    shape = next((match for failure in found if (match := _SHAPE.search(failure.text))), None)
    what = (
        f"parameter {shape['index']} has shape [{shape['sizes']}]"
        if shape is not None
        else "a parameter has another shape"
    )

    yield RULE.finding(
        f"{what} on {who(found)}, and another one on rank 0",
        ranks=sides.minority if differ else (),
        where=where,
        index=int(shape["index"]) if shape is not None else None,
    )
