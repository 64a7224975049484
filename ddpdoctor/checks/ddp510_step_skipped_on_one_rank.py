"""A rank that skipped a step which the others made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from typing_extensions import assert_never

from ddpdoctor.analysis.collectives.places.conditions_above import rank_test
from ddpdoctor.analysis.collectives.places.rank_tests import is_the_same_everywhere
from ddpdoctor.analysis.replicas.divergence import Divergences
from ddpdoctor.analysis.replicas.divergences.steps import SkipCause, StepSkipped
from ddpdoctor.evidence.source import SourceCode, place_of
from ddpdoctor.messages.conditions import condition_text
from ddpdoctor.messages.divergence import finding
from ddpdoctor.messages.majority import tie_note
from ddpdoctor.messages.replicas import sides_sentence
from ddpdoctor.model import Finding, Rule, Severity, Where, group_ranks

RULE = Rule(
    code="DDP510",
    name="step-skipped-on-one-rank",
    summary="a rank skipped a step that its peers made",
    severity=Severity.FAIL,
    shown_by="the number of optimizer steps differs between ranks: `ddpdoctor verify-sync`",
    remedy="decide on all ranks together: all_reduce the reason to skip (a NaN, a caught error, an empty batch) "
    "and skip everywhere or nowhere",
    explains=("DDP503", "DDP507", "DDP509", "DDP504", "DDP505", "DDP508", "DDP506"),
    about_step=True,
)

SCALER_REMEDY = (
    "all_reduce found_inf (MAX) before scaler.step, or scale and step reduced gradients only: no_sync and "
    "edits between the all-reduce and the optimizer step make them differ"
)


def check(divergences: Divergences, code: SourceCode | None = None) -> Iterator[Finding]:
    """The first step at which the ranks are out of line."""
    for found in divergences.of(StepSkipped):
        step = f"a step of {found.optimizer}" if found.optimizer else f"{_which(found)} of {divergences.steps}"
        skipped = f"{group_ranks(found.ranks)} skipped {step}"
        doubt = tie_note(tied=found.tied)
        past = _past_the_step(found, code) if found.cause is SkipCause.STEPS and not found.tied else ()
        scale = {} if found.scale is None else {"scale": found.scale}
        shown = finding(
            RULE,
            found,
            f"{skipped}: {_how(found)}{doubt}",
            cause=found.cause.value,
            note=_note(found, code),
            remedy=SCALER_REMEDY if found.cause is SkipCause.FOUND_INF else None,
            numbers={"seen": found.seen, **scale},
        )
        yield replace(shown, where=(*past, *shown.where))


def _which(found: StepSkipped) -> str:
    """The step, or those of which one was skipped, where not every step was audited."""
    if found.until is None or found.until <= found.step:
        return f"step {found.step}"
    return f"one of steps {found.step} to {found.until}"


def _past_the_step(found: StepSkipped, code: SourceCode | None) -> tuple[Where, ...]:
    """The statement by which a run passes over the line of the step in its function, where there is only one."""
    frames = {found.lines.get(rank) for rank in found.ranks}
    frame = frames.pop() if len(frames) == 1 else None
    place = place_of(code, frame) if frame is not None else None
    if frame is None or place is None:
        return ()
    jumps = [jump for loop in place.loops[-1:] for jump in loop.jumps if jump.word == "continue"]
    before = [jump for jump in (*place.exits, *jumps) if jump.line < frame.line and jump.test]
    tests = [condition for condition in place.conditions if condition.is_if and not is_the_same_everywhere(condition)]
    ways = [
        (jump.line, f"`{jump.word}` {condition_text(jump.condition, frame.file)}, before the step") for jump in before
    ]
    ways += [(test.line, f"the step is {condition_text(test, frame.file)}") for test in tests]
    if len(ways) != 1:
        return ()
    line, note = ways[0]
    return tuple(Where.at(frame.at_line(line), rank=rank, note=note) for rank in found.ranks)


def _note(found: StepSkipped, code: SourceCode | None) -> str:
    """What the lines are: the next step of the ranks that skipped one, or else the step that only the others make."""
    others_alone = bool(found.lines) and {*found.lines}.isdisjoint(found.ranks)
    test = rank_test(tuple(dict.fromkeys(found.lines.values())), code)
    under = f", {condition_text(test[0], test[1].file)}" if test is not None else ""
    if found.optimizer:
        return f"steps {found.optimizer}{under}"
    return f"{'the' if others_alone else 'the next'} optimizer step{under}"


def _how(found: StepSkipped) -> str:
    match found.cause:
        case SkipCause.FOUND_INF:
            return f"its GradScaler (scale {found.scale:g}) found non-finite gradients; those of its peers did not"
        case SkipCause.STEPS if found.optimizer:
            return f"its steps in all: {sides_sentence(found.sides)}"
        case SkipCause.STEPS:
            return f"optimizer steps before the same forward: {sides_sentence(found.sides)}"
        case SkipCause.POSITION:
            return f"position in the data before the same forward (epoch, batches drawn): {sides_sentence(found.sides)}"
        case _:
            assert_never(found.cause)
