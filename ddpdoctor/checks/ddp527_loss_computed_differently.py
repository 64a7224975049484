"""Ranks with equal weights whose forward gives other numbers for the same batch: settings, kernels, or a faulty device."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.replicas.divergence import Divergences
from ddpdoctor.analysis.replicas.divergences.results import LossComputedDifferently
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.training_trace import Track
from ddpdoctor.messages.divergence import finding, suspects
from ddpdoctor.messages.majority import tie_note
from ddpdoctor.model import Finding, Rule, Severity, group_ranks

RULE = Rule(
    code="DDP527",
    name="loss-computed-differently",
    summary="ranks with equal weights compute different outputs for the same batch",
    severity=Severity.FAIL,
    shown_by="a probe batch, the same on all ranks, gives other outputs on some: `ddpdoctor verify-sync --probe-every K`",
    remedy="use the same devices, libraries, precision (torch.backends, TF32) and number of threads on all ranks; where they are "
    "equal already, test the device of these ranks (GPU: `dcgmi diag -r 4`; host: memory test)",
    about_step=True,
)


def check(divergences: Divergences, tracks: PerRank[Track] | None) -> Iterator[Finding]:
    """The first probe whose outputs differ."""
    for found in divergences.of(LossComputedDifferently):
        where = f"first in the output of {found.module}, one of {found.modules} modules"
        who = suspects(found.ranks, found.devices, tracks)
        if found.unstable:
            repeated = f"; {group_ranks(found.unstable)} computed something else when the forward was repeated"
            verb = "computed other outputs for the probe batch" if set(found.unstable) != set(found.ranks) else (
                "computed different outputs for the probe batch"
            )  # fmt: skip
        else:
            repeated, verb = "", "computed other outputs for the probe batch"
        settings = f"; settings that differ: {'; '.join(found.settings)}" if found.settings else ""
        message = (
            f"before step {found.step} of {divergences.steps}, {who} {verb}, {where}{repeated}{settings}"
            f"{tie_note(tied=found.tied)}"
        )
        yield finding(RULE, found, message, tensors=(found.module,), cause="settings" if found.settings else "")
