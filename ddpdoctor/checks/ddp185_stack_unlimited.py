"""An unlimited stack makes old NCCL start its threads with 2 MiB."""

from collections.abc import Iterator

from packaging.version import InvalidVersion, Version

from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.limits import Limits
from ddpdoctor.evidence.torch_build import TorchBuild
from ddpdoctor.model import Finding, Rule, Severity, SkipCheck

RULE = Rule(
    code="DDP185",
    name="stack-unlimited",
    summary="with an unlimited stack, NCCL before 2.28 starts its threads with 2 MiB",
    severity=Severity.WARN,
    remedy="run `ulimit -s 8192` before the job, or update NCCL to 2.28",
    background=True,
)

CURED_IN = Version("2.28")  # NCCL's guide on runtime issues


def check(limits: PerRank[Limits], torch: PerRank[TorchBuild]) -> Iterator[Finding]:
    """One finding for each host whose stack is unlimited under an NCCL before 2.28."""
    versions = {entry.host: entry.value.nccl_loaded or entry.value.nccl_compiled for entry in torch}
    if not any(versions.values()):
        raise SkipCheck("torch has no NCCL here")
    for each in limits.hosts():
        version = versions.get(each.host)
        if each.value.stack_bytes == "unlimited" and version is not None and _before(version):
            yield RULE.finding(
                f"the stack limit of {each.host} is unlimited: NCCL {version} then starts its threads with a stack of 2 MiB",
                hosts=(each.host,),
                nccl=version,
            )


def _before(version: str) -> bool:
    try:
        return Version(version) < CURED_IN
    except InvalidVersion:
        return False
