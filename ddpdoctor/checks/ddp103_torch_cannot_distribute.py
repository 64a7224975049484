"""The torch here is not there, cannot be imported, or lacks torch.distributed or a backend that this host needs.

Without torch.distributed and a backend no process group can be made.
"""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.torch_build import TorchBuild
from ddpdoctor.model import Finding, Rule, Severity

INSTALL = (
    "run `python -m ddpdoctor env` with the Python of your training environment, or install torch for this one: "
    "`pip install 'ddpdoctor[torch]'`"
)
RULE = Rule(
    code="DDP103",
    name="torch-cannot-distribute",
    summary="torch cannot be imported, or lacks torch.distributed or a backend that this host needs",
    severity=Severity.FAIL,
    remedy="install a full Linux wheel: `pip install --force-reinstall torch`; it has gloo, and NCCL where it has CUDA",
    background=True,
)


def check(torches: PerRank[TorchBuild]) -> Iterator[Finding]:
    """One finding per host: the import fails, or distributed, gloo, or (in a CUDA build) NCCL is missing."""
    for host in torches.hosts():
        wrong = _wrong(host.value)
        if wrong:
            remedy = INSTALL if host.value.not_installed_for is not None else None
            yield RULE.finding(f"on {host.host} {wrong}", hosts=(host.host,), ranks=host.ranks, remedy=remedy)


def _wrong(torch: TorchBuild) -> str:
    if torch.not_installed_for is not None:
        return f"torch is not installed for {torch.not_installed_for}"
    if torch.import_error is not None:
        return f"`import torch` fails: {torch.import_error}"
    if torch.distributed is False:
        return f"torch {torch.version} was built without torch.distributed"
    if torch.distributed and "gloo" not in torch.backends:
        return f"torch {torch.version} was built without gloo"
    if torch.distributed and torch.cuda is not None and "nccl" not in torch.backends:
        return f"torch {torch.version} for CUDA {torch.cuda} was built without NCCL"
    return ""
