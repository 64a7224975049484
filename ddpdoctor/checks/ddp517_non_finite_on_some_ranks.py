"""NaN or infinity that begins on some ranks and reaches all of them through the reduction."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.replicas.divergence import Divergences
from ddpdoctor.analysis.replicas.divergences.gradients import LocalNotFinite, NonFiniteCause
from ddpdoctor.messages.divergence import finding, some_of, when
from ddpdoctor.messages.replicas import listed
from ddpdoctor.model import ErrorPattern, Finding, Rule, Severity, group_ranks

RULE = Rule(
    code="DDP517",
    name="non-finite-on-some-ranks",
    summary="the local loss or gradients of some ranks are not finite",
    severity=Severity.FAIL,
    shown_by="the local loss or gradient of one rank is nan or inf first: `ddpdoctor verify-sync`",
    remedy="inspect that rank's batch at that step (an empty batch, a bad sample, a division by zero); decide on "
    "all ranks together whether to skip it",
    explains=("DDP401", "DDP408", "DDP418", "DDP514", "DDP503", "DDP504", "DDP505", "DDP507", "DDP508"),
    about_step=True,
    errors=(
        ErrorPattern(  # of Megatron, as it makes the step once more
            regex=r"Unexpected result (?P<value>nan|inf) on rank (?P<rank>\d{1,9}) at iteration #(?P<iteration>\d{1,18})",
            sentence="rank {rank} found {value} in its own numbers at iteration {iteration}, before anything was reduced",
        ),
        ErrorPattern(  # of Megatron's checks, which each rank makes of its own numbers
            regex=r"[Ff]ound (?P<value>NaN|Inf) in local (?P<what>grad norm|forward loss)",
            sentence="{who} found {value} in its own {what} before anything was reduced",
        ),
    ),
)

WEIGHTS_REMEDY = (
    "the batch is not the cause: find what made these parameters nan or inf on these ranks since the last audited step (code "
    "that writes them on one rank, or a fault of memory); `ddpdoctor verify-sync --every 1` tells which of both"
)


def check(divergences: Divergences) -> Iterator[Finding]:
    """The first step at which some ranks' own numbers are not finite."""
    for found in divergences.of(LocalNotFinite):
        what = []
        if found.cause is NonFiniteCause.INPUT:
            what.append("the model's input")
        if found.lost:
            what.append("a loss")
        if found.tensors:
            what.append(some_of(found.tensors, found.total, "local gradients"))
        be = "are" if len(what) > 1 or found.tensors else "is"
        ranks = group_ranks(found.ranks)
        by_weights = found.cause is NonFiniteCause.WEIGHTS
        message = f"{when(found, divergences)}, {listed(what)} {be} not finite on {ranks} only, before the all-reduce"
        if found.weights:
            weights = some_of(found.weights, found.weights_total, "parameters")
            message += f"; before the forward {weights} " + (
                f"were not finite on {ranks}" if by_weights else "differed between ranks"
            )
        yield finding(
            RULE, found, message, tensors=found.tensors, cause=found.cause.value, note="here",
            remedy=WEIGHTS_REMEDY if by_weights else None,
        )  # fmt: skip
