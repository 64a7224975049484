"""GPUs of several models, and CUDA numbers them by speed.

`nvidia-smi` numbers by PCI bus: GPU 0 is then another card for the person who sets CUDA_VISIBLE_DEVICES than for CUDA.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.gpus import Gpus
from ddpdoctor.evidence.host import Environment
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP195",
    name="gpus-numbered-by-speed",
    summary="a host has several GPU models, and CUDA numbers them differently from nvidia-smi",
    severity=Severity.WARN,
    remedy="`export CUDA_DEVICE_ORDER=PCI_BUS_ID` for every rank, or name GPUs by UUID in CUDA_VISIBLE_DEVICES",
    background=True,
)


def check(gpus: PerRank[Gpus], environments: PerRank[Environment]) -> Iterator[Finding]:
    """One finding per host of mixed GPUs on which a number may mean two cards."""
    variables = {host.host: host.value.variables for host in environments.hosts()}
    for host in gpus.hosts():
        models = Counter(gpu.name for gpu in host.value.gpus if gpu.name is not None)
        given = variables.get(host.host, {})
        if len(models) < 2 or given.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID" or _by_uuid(given):
            continue
        held = " and ".join(f"{count} {name}" for name, count in models.items())
        yield RULE.finding(
            f"{host.host} has {held}, and CUDA_DEVICE_ORDER is {given.get('CUDA_DEVICE_ORDER', 'not set')}: "
            "CUDA numbers the fastest GPU first, nvidia-smi numbers by PCI bus",
            hosts=(host.host,),
            ranks=host.ranks,
            models=dict(models),
        )


def _by_uuid(variables: Mapping[str, str]) -> bool:
    """Whether every visible GPU is named by its UUID, which means one card in either order."""
    chosen = variables.get("CUDA_VISIBLE_DEVICES", "")
    return bool(chosen) and all(name.strip().startswith(("GPU-", "MIG-")) for name in chosen.split(","))
