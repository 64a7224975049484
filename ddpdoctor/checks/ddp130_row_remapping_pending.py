"""A GPU has a broken memory row that is still in use, or no spare row left.

The repair takes effect at the next reset.
"""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.gpu_property import readable
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.gpus import Gpus
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP130",
    name="row-remapping-pending",
    summary="a GPU has a broken memory row that is still in use, or no spare row left",
    severity=Severity.FAIL,
    remedy="drain the host and reset the GPU (`nvidia-smi -r -i INDEX`); if remapping failed, replace the GPU",
    background=True,
)


def check(gpus: PerRank[Gpus]) -> Iterator[Finding]:
    """One finding per GPU whose remapping is pending or has failed."""
    for host, gpu, rows in readable(gpus, "remapped_rows", lambda gpu: gpu.remapped_rows):
        if rows.failed or rows.pending:
            what = (
                "could not remap a broken memory row" if rows.failed else "needs a reset to remap a broken memory row"
            )
            yield RULE.finding(
                f"GPU {gpu.index} of {host.host} {what} ({rows.correctable} correctable and {rows.uncorrectable} "
                "uncorrectable so far)",
                hosts=(host.host,),
                ranks=host.ranks,
                gpu=gpu.index,
                pending=rows.pending,
                failed=rows.failed,
            )
