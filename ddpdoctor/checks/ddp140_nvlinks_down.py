"""Some of a GPU's NVLinks are down.

Traffic takes the remaining links, or PCIe.
"""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.gpu_property import readable
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.gpus import Gpus
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP140",
    name="nvlinks-down",
    summary="some of a GPU's NVLinks are down",
    severity=Severity.FAIL,
    remedy="`systemctl restart nvidia-fabricmanager` and reset the GPU; if that does not help, reseat the board",
    background=True,
)

LINKS = {"A100-SXM": 12, "A800-SXM": 8, "H100 80GB HBM3": 18, "NVIDIA H200": 18, "NVIDIA B200": 18}  # data sheets


def check(gpus: PerRank[Gpus]) -> Iterator[Finding]:
    """One finding per GPU with fewer active links than its model has on a board with a switch, where a peer has any."""
    active_of = {
        (host.host, gpu.index): sum(links) for host, gpu, links in readable(gpus, "nvlinks", lambda gpu: gpu.nvlinks)
    }
    for host, gpu, links in readable(gpus, "nvlinks", lambda gpu: gpu.nvlinks):
        active = sum(links)
        most = max(count for (name, _), count in active_of.items() if name == host.host)
        wanted = _links(gpu.name or "")
        if wanted and most and active < wanted:
            yield RULE.finding(
                f"{active} of {wanted} NVLinks of GPU {gpu.index} ({gpu.name}) of {host.host} are up",
                hosts=(host.host,),
                ranks=host.ranks,
                gpu=gpu.index,
                active=active,
                links=wanted,
                down=[number for number, up in enumerate(links) if not up],
            )


def _links(model: str) -> int:
    """How many links the model's board connects; 0 for one whose bridges may be left out."""
    return 0 if "NVL" in model or "MIG" in model else next((n for name, n in LINKS.items() if name in model), 0)
