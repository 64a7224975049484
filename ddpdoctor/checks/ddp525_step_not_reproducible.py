"""Weights or optimizer state that became different from equal inputs, and that no known code wrote."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from typing_extensions import assert_never

from ddpdoctor.analysis.replicas.divergence import Divergences
from ddpdoctor.analysis.replicas.divergences.results import Corrupted, Repeated, StepNotReproducible
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.training_trace import Track
from ddpdoctor.messages.divergence import SHOWN, finding, suspects, when
from ddpdoctor.messages.majority import tie_note
from ddpdoctor.model import Finding, Rule, Severity, group_ranks

RULE = Rule(
    code="DDP525",
    name="step-not-reproducible",
    summary="from equal weights, gradients, state and settings a rank came to other weights",
    severity=Severity.FAIL,
    shown_by="all that the step depends on is equal on all ranks, and its result is not: `ddpdoctor verify-sync --every 1`",
    remedy="save the case, restart from the last checkpoint without the GPU or host of these ranks, and test them (GPU: `dcgmi "
    "diag -r 4`, ECC counters in `nvidia-smi -q`; host: memory test, `ras-mc-ctl --errors`)",
    explains=("DDP503", "DDP504", "DDP505", "DDP507", "DDP508", "DDP509", "DDP517"),
    about_step=True,
)

EQUAL = "weights, gradients, state and settings before it were equal on all ranks"
EQUAL_AT_FORWARD = "weights at its forward, and gradients, state and settings before it, were equal on all ranks"
UNCOUNTED = (
    "first look for code that writes these tensors on these ranks only and is not counted by PyTorch (`.data`, NumPy, a C++ "
    "extension), also between two backwards; "
)
MEANWHILE = (
    "if the line shown writes this element itself (through `.data`, NumPy or a C++ extension), run it on all ranks (DDP509); "
    "if it does not, "
)
LOADED = (
    "compare the checkpoint files that these ranks and the others read (`sha256sum`): if they differ, copy the good file again; "
    "if they are equal, "
)
BITS_SHOWN = 3
NONDETERMINISTIC = (
    "make the step deterministic: no random numbers in it that depend on the rank, torch.use_deterministic_algorithms(True), one "
    "implementation (foreach, fused) on all ranks; then run `ddpdoctor verify-sync --every 1` again"
)


def check(divergences: Divergences, tracks: PerRank[Track] | None) -> Iterator[Finding]:
    """The first step at which it shows."""
    for found in divergences.of(StepNotReproducible):
        yield finding(
            RULE,
            found,
            _message(found, divergences, tracks)
            + tie_note(tied=found.tied and found.at is not Corrupted.NONDETERMINISTIC),
            tensors=found.tensors,
            cause=found.at.value,
            note=_note(found),
            remedy=_remedy(found),
            numbers={"bits": list(found.bits), **_repetition(found)},
        )


def _note(found: StepNotReproducible) -> str:
    """What the line shown is."""
    if found.meanwhile:
        return "ran while it changed"
    if found.loaded:
        return "loads them"
    before_forward = found.at in {Corrupted.MEMORY, Corrupted.BUFFER, Corrupted.UNSEEN} and not found.after_forward
    return "the first forward after it" if before_forward else "the optimizer step"


def _remedy(found: StepNotReproducible) -> str | None:
    """None for that of the rule: the step was made again, from weights that were equal right before it."""
    if found.at is Corrupted.NONDETERMINISTIC:
        return NONDETERMINISTIC
    if found.meanwhile:
        return f"{MEANWHILE}{RULE.remedy}"
    if found.loaded:
        return f"{LOADED}{RULE.remedy}"
    return UNCOUNTED + "if there is none, " + RULE.remedy if found.repeated is None else None


def _repetition(found: StepNotReproducible) -> dict[str, str]:
    if found.repeated is None:
        return {}
    return {"repeated": found.repeated.value, **({"operation": found.operation} if found.operation else {})}


def _message(found: StepNotReproducible, divergences: Divergences, tracks: PerRank[Track] | None) -> str:
    who = suspects(found.ranks, found.devices, tracks)
    what = ", ".join(found.tensors[:SHOWN]) + (", ..." if len(found.tensors) > SHOWN else "")
    bits = _bits(found.bits)
    uncounted = (
        "PyTorch counted no more writes on these ranks"
        if len(found.ranks) < divergences.world_size
        else "PyTorch counted as many writes on all of them"
    )
    at = when(found, divergences)
    match found.at:
        case Corrupted.STEP:
            equal = EQUAL_AT_FORWARD if found.repeated is None else EQUAL
            return f"{at}, {found.optimizer}.step gave other weights on {who}: {what}{bits}; {equal}{_again(found)}"
        case Corrupted.NONDETERMINISTIC:
            return f"{at}, {found.optimizer}.step gave other weights on every rank: {what}; {EQUAL}{_again(found)}"
        case Corrupted.STATE:
            if found.loaded:
                return f"{at}, the optimizer state {what} is not what the other ranks loaded on {who}"
            return f"{at}, the optimizer state {what} differs on {who} since step {found.equal_at}, and {uncounted}"
        case Corrupted.MEMORY:
            if found.after_forward:
                return (
                    f"{at}, {what} changed on {who}{bits} between the forward and the optimizer step, and {uncounted}"
                )
            before = f"before step {found.step} of {divergences.steps}"
            if found.loaded:
                return f"{before}, {what} on {who} is not what the other ranks loaded{bits}"
            since = "the step before" if found.step else "the model was wrapped"
            return f"{before}, {what} changed on {who}{bits}, and {uncounted} since {since}"
        case Corrupted.PART:
            since = f"between step {found.equal_at} and step {found.step} of {divergences.steps}"
            return f"{since}, the part of {what} on {who} changed{bits}, and PyTorch counted no writes to it"
        case Corrupted.BUFFER:
            before = f"before step {found.step} of {divergences.steps}"
            since = f"since step {found.equal_at}"
            return f"{before}, the buffer {what} changed on {who}{bits}, and PyTorch counted no writes to it {since}"
        case Corrupted.GRADIENT:
            gradient = f"the averaged gradient of {what} changed on {who}{bits}"
            return f"{at}, {gradient} between the backward and the optimizer step, and {uncounted}"
        case Corrupted.UNSEEN:
            between = f"between steps {found.equal_at} and {found.step} of {divergences.steps}"
            return f"{between}, one element of {what} changed on {who}, and {uncounted}"
        case _:
            assert_never(found.at)


def _bits(bits: Sequence[int]) -> str:
    """` (bit 3 of one element)`, or how many differ."""
    if not bits:
        return ""
    if len(bits) > BITS_SHOWN:
        return f" ({len(bits)} bits of one element)"
    return f" (bit {', '.join(map(str, bits))} of one element)"


def _again(found: StepNotReproducible) -> str:
    """What came of the step when it was made again from the same inputs."""
    first = f", first in the result of {found.operation}" if found.operation else ""
    match found.repeated:
        case None:
            return ""
        case Repeated.ONCE:
            return f"; made again, the step gives {group_ranks(found.ranks)} the weights of the others"
        case Repeated.AGAIN:
            return "; made again twice, the step gives each rank its own weights again"
        case Repeated.NEVER if found.at is Corrupted.NONDETERMINISTIC:
            return f"; made again twice, the step gives no rank the same weights{first}"
        case Repeated.NEVER:
            return f"; made again twice, it gives {group_ranks(found.ranks)} other weights each time{first}, the others their own"
        case _:
            assert_never(found.repeated)
