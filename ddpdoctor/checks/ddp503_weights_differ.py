"""Replicas that were trained and no longer hold the same weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ddpdoctor.evidence.replicas import Replicas, ValueDifference
from ddpdoctor.evidence.source import SourceCode
from ddpdoctor.evidence.value_chains import ValueChains
from ddpdoctor.messages import value_chains, weight_writes
from ddpdoctor.messages.replicas import at_step, differing, element_sentence, value_finding
from ddpdoctor.model import Finding, Rule, Severity, SkipCheck, Writer, group_ranks

RULE = Rule(
    code="DDP503",
    name="weights-differ",
    summary="replicas no longer hold the same weights",
    severity=Severity.FAIL,
    shown_by="`ddpdoctor verify-sync` finds equal weights at first and different ones later",
    remedy="run `ddpdoctor verify-sync --nproc N --every 1 --replay SCRIPT`: it names the step and the line "
    "that writes, or makes the step again",
    about_step=True,
    writer=Writer.ANY_TIME,
)


EXCHANGE = (
    "send each parameter from the rank that steps it to all others (broadcast, all_gather), after each step and on every rank, "
    "and check that the exchange leaves none out"
)
REPLAYED = (
    "look for hooks, C++ extensions and other threads that write these weights on some ranks: the replay saw no line that does; "
    "if there are none, test the memory of the hosts of these ranks"
)


def check(replicas: Replicas, code: SourceCode | None, chains: ValueChains | None = None) -> Iterator[Finding]:
    """The first parameter that differs after the training began, with the statement that writes weights on these ranks alone."""
    if not replicas.stepped:
        raise SkipCheck("the model had not been trained yet when it was compared")
    differences = differing(replicas, "parameter")
    if differences and replicas.steppers:
        yield _not_sent(replicas, differences)
    elif differences:
        found = value_finding(RULE, replicas, differences, "parameters", remedy=REPLAYED if replicas.replayed else None)
        written = [*weight_writes.by_some(code, found.ranks, [side.ranks for side in differences[0].sides])]
        if not written:
            names = [difference.name for difference in differences]
            written = [*value_chains.only_write(chains, "weights", names, ())]
        found = replace(found, where=(*written, *found.where))
        yield _in_doubt(found) if replicas.may_be_put_in_place else found


def _in_doubt(found: Finding) -> Finding:
    return replace(
        found,
        severity=Severity.WARN,
        message=f"{found.message}; no fault if rank 0 has put these weights in place after the last step",
    )


def _not_sent(replicas: Replicas, differences: Sequence[ValueDifference]) -> Finding:
    """Ranks share the parameters out, and one was not made equal before the next forward."""
    steppers = group_ranks(replicas.steppers)
    steps = "steps" if len(replicas.steppers) == 1 else "step"
    found = value_finding(RULE, replicas, differences, "parameters", remedy=EXCHANGE)
    return replace(
        found,
        message=f"{at_step(replicas)}{element_sentence(differences[0])} before the forward; only {steppers} {steps} it",
        ranks=replicas.steppers,
        measured={**found.measured, "steppers": list(replicas.steppers)},
    )
