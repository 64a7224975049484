"""One reduction, several results: a link, a network card or a library has changed bits on the way."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.replicas.divergence import Divergences
from ddpdoctor.analysis.replicas.divergences.results import CollectiveDiffers
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.training_trace import Track
from ddpdoctor.messages.divergence import finding, some_of, suspects, when
from ddpdoctor.messages.majority import tie_note
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP526",
    name="collective-result-differs",
    summary="ranks received different results from the same reduction of gradients",
    severity=Severity.FAIL,
    shown_by="gradients differ when the backward returns, although DDP reduced them: `ddpdoctor verify-sync --every 1`",
    remedy="restart from the last checkpoint without the host of these ranks; test its links (`ddpdoctor allreduce-bench` checks "
    "every result, `ddpdoctor net`), look at the error counters of NICs and NVLinks (`nvidia-smi nvlink -e`, `ethtool -S`), and "
    "use one version of NCCL on all hosts",
    explains=("DDP503", "DDP504", "DDP505", "DDP506", "DDP507", "DDP509", "DDP510", "DDP517", "DDP525"),
    about_step=True,
)


def check(divergences: Divergences, tracks: PerRank[Track] | None) -> Iterator[Finding]:
    """The first step whose reduction had several results."""
    for found in divergences.of(CollectiveDiffers):
        received = some_of(found.tensors, found.total, "gradients")
        who = f"{when(found, divergences)}, {suspects(found.ranks, found.devices, tracks)}"
        message = (
            f"{who} received different results from the all-reduce of {received}{tie_note(tied=True)}"
            if found.tied
            else f"{who} received other results than the other ranks from the all-reduce of {received}"
        )
        yield finding(RULE, found, message, tensors=found.tensors, note="the backward that reduced")
