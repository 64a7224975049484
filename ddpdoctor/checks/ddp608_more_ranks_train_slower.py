"""DDP608: several ranks of the reference job get through fewer samples than one rank alone."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.evidence.training import ScalingRun
from ddpdoctor.model import Finding, Rule, Severity, SkipCheck

RULE = Rule(
    code="DDP608",
    name="more-ranks-train-slower",
    summary="several ranks of the reference job train fewer samples per second than one rank",
    severity=Severity.WARN,
    shown_by="`ddpdoctor train --scaling 1,2` is slow on this machine, too, so it is not the job's own code",
    remedy="time the collectives with `ddpdoctor allreduce-bench`, look for shared or throttled cores, GPUs and links with "
    "`ddpdoctor env`, and give each rank cores of its own (OMP_NUM_THREADS, --cpus-per-task)",
)
# times the share of the cores that other programs use: all ranks wait for the one that has to share its core
FORGIVEN = 2


def check(run: ScalingRun) -> Iterator[Finding]:
    """A finding where ranks get less done together than one alone with the same batch a rank; a busy machine is not judged."""
    most, alone = run.points[-1].ranks, run.points[0].weak
    if run.device == "cpu" and most > run.cores:
        raise SkipCheck(f"{most} ranks share {run.cores} CPU cores, so their speed says nothing about DDP")
    forgiven = FORGIVEN * run.cores_of_others / run.cores
    if forgiven >= 1:
        raise SkipCheck(f"other programs used {run.cores_of_others:.1f} of {run.cores} cores during the measurement")
    for point in run.points[1:]:
        if point.weak < alone * (1 - forgiven):
            yield RULE.finding(
                f"{point.ranks} ranks of {run.model} over {run.backend} train {point.weak:,.0f} samples/s together; one "
                f"rank alone trains {alone:,.0f} samples/s with the same batch size per rank",
                ranks=range(point.ranks),
                together=point.weak,
                alone=alone,
                cores_of_others=run.cores_of_others,
            )
