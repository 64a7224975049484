"""Parameters that the loss of a step did not depend on: their gradients never came, so the reduction never ended."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ddpdoctor.analysis.crashes.failure import Failure, unique_ranks, who
from ddpdoctor.analysis.crashes.failures import Failures
from ddpdoctor.analysis.hangs.rank_activity import Activities
from ddpdoctor.analysis.hangs.stack_patterns import BACKWARD, Activity
from ddpdoctor.evidence import PerRank, by_rank, noun_of
from ddpdoctor.evidence.ranks import MissingGradients, StepCount
from ddpdoctor.evidence.source import SourceCode
from ddpdoctor.grouping import grouped
from ddpdoctor.messages import weight_writes
from ddpdoctor.model import ErrorPattern, Finding, Rule, Severity, SkipCheck, Where, group_ranks, verb


def _is_no_static_graph(text: str) -> bool:
    return "training graph has changed" not in text


RULE = Rule(
    code="DDP404",
    name="unused-parameters",
    summary="parameters took no part in the loss, and DDP waited for their gradients",
    severity=Severity.FAIL,
    shown_by="the message lists parameters without a gradient; find_unused_parameters=True makes it go away",
    remedy="let every parameter take part in every loss, or freeze it before wrapping; where it depends on the data, wrap with "
    "find_unused_parameters=True. TORCH_DISTRIBUTED_DEBUG=INFO adds the names",
    explains=("DDP301", "DDP302", "DDP305", "DDP306", "DDP307", "DDP314", "DDP318", "DDP401", "DDP408", "DDP418"),
    errors=(
        ErrorPattern(
            regex=r"Expected to have finished reduction in the prior iteration before starting a new one|parameters that "
            r"were not used in producing (?:the )?loss|did not receive grad for rank|participate in calculating loss",
            applies=_is_no_static_graph,
        ),
    ),
)
OF_A_FREEZE = "freeze the same parameters on every rank, before DistributedDataParallel wraps the model"
SHOWN = 8

_WHOSE = re.compile(r"did not receive grad for rank (\d{1,9})\b")
_NAMES = re.compile(r"Parameters which did not receive grad for rank \d+: (?P<names>[^\n]+)")
_INDICES = re.compile(r"Parameter indices which did not receive grad for rank \d+: (?P<indices>[\d ]+)")


def check(
    failures: Failures | None,
    gradients: PerRank[MissingGradients] | None = None,
    activities: Activities | None = None,
    steps: PerRank[StepCount] | None = None,
    code: SourceCode | None = None,
) -> Iterator[Finding]:
    """The ranks, and the parameters that had no gradient: by name where the message has them, else by index.

    The statement that a test of the rank leaves to some and that freezes weights is shown, where it is the only one.
    In a job that hangs: those that ranks past their backward have no gradient of, while their peers wait in it for them.
    """
    if failures is None and (gradients is None or activities is None):
        raise SkipCheck(f"no {noun_of(MissingGradients.__name__)} in the evidence, and no exit status of any rank")
    found = [_named(failure) for failure in failures.of("DDP404")] if failures is not None else []
    if not found and gradients is not None and activities is not None:
        made = {entry.rank: entry.value.forwards or 0 for entry in steps or ()}
        yield from _by_gradients(by_rank(gradients), activities, made, code)
    if not found:
        return
    by_parameters = grouped((_parameters(failure.text), failure) for failure in found)
    ranks = unique_ranks(found)
    without = " and ".join(
        f"{who(group)}: {_spoken(parameters)} received no gradient" for parameters, group in by_parameters.items()
    )
    frozen = _frozen_by(code, ranks, [entry.rank for entry in steps or () if entry.rank not in ranks])
    yield RULE.finding(
        f"{without} in the previous step",
        ranks=ranks,
        where=[*frozen, *(where for failure in found for where in failure.where("begins the next step here"))],
        remedy=OF_A_FREEZE if frozen else None,
        parameters={"+".join(map(str, unique_ranks(group))): [*names] for names, group in by_parameters.items()},
    )


def _by_gradients(
    gradients: Mapping[int, MissingGradients],
    activities: Activities,
    forwards: Mapping[int, int],
    code: SourceCode | None,
) -> Iterator[Finding]:
    """Ranks past their backward without gradients that all the others have, which wait in theirs.

    A rank that has made fewer forwards is past an earlier backward, which all have ended: its program took the gradients away.
    """
    waiting = [one for one in activities.each if one.operation == BACKWARD]
    past = [one for one in activities.each if one.kind is Activity.COLLECTIVE and one not in waiting]
    here = {name for one in waiting if one.rank in gradients for name in gradients[one.rank].names}
    answered = all(one.rank in gradients for one in waiting)
    lacks = {
        one.rank: tuple(name for name in gradients[one.rank].names if name not in here)
        for one in past
        if one.rank in gradients
    }
    if not waiting or not past or not answered or len(waiting) + len(past) < len(activities.each):
        return
    if not all(lacks.get(one.rank) for one in past):
        return
    if min(forwards.get(one.rank, 0) for one in past) < max(forwards.get(one.rank, 1) for one in waiting):
        return
    by_parameters = grouped((names, rank) for rank, names in lacks.items())
    without = " and ".join(
        f"{group_ranks(ranks)}: {_spoken(names)} received no gradient" for names, ranks in by_parameters.items()
    )
    others = [one.rank for one in waiting]
    frozen = _frozen_by(code, [*lacks], others)
    yield RULE.finding(
        f"{without} in the last backward, and {group_ranks(others)} {verb(others, 'waits', 'wait')} in it for "
        "their reduction",
        ranks=[*lacks],
        where=[
            *frozen,
            *(
                Where.at(one.place, rank=one.rank, note=f"waiting in {one.operation}")
                for one in (*past, *waiting)
                if one.place is not None
            ),
        ],
        remedy=OF_A_FREEZE if frozen else None,
        parameters={"+".join(map(str, ranks)): [*names] for names, ranks in by_parameters.items()},
    )


def _frozen_by(code: SourceCode | None, ranks: Sequence[int], others: Sequence[int]) -> list[Where]:
    """The statement by which these `ranks`, and not the `others`, took parameters out of the training."""
    return [*weight_writes.by_some(code, ranks, (ranks, others), wants="freeze")] if others else []


def _named(failure: Failure) -> Failure:
    """The failure with the rank that DDP's message names, where the log shows none beside it."""
    match = _WHOSE.search(failure.text) if failure.rank is None else None
    return replace(failure, rank=int(match[1])) if match is not None else failure


def _parameters(words: str) -> tuple[str, ...]:
    if found := _NAMES.search(words):
        return tuple(name.strip() for name in found["names"].split(",") if name.strip())
    if found := _INDICES.search(words):
        return tuple(f"#{index}" for index in found["indices"].split())
    return ()


def _spoken(parameters: tuple[str, ...]) -> str:
    if not parameters:
        return "some parameters"
    shown = ", ".join(parameters[:SHOWN]) + (f" and {len(parameters) - SHOWN} more" if len(parameters) > SHOWN else "")
    return f"parameter{'s' if len(parameters) > 1 else ''} {shown}"
