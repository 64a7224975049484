"""TORCH_DISTRIBUTED_DEBUG=DETAIL kills the constructor of DistributedDataParallel on gloo with SIGSEGV, without a word."""

import signal
from collections.abc import Iterator

from ddpdoctor.analysis.by_value import who_sets
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.host import Environment
from ddpdoctor.evidence.ranks import RankExit
from ddpdoctor.evidence.torch_build import TorchBuild
from ddpdoctor.model import Finding, Rule, Severity, SkipCheck, group_ranks

RULE = Rule(
    code="DDP411",
    name="detail-debug-crashes-gloo",
    summary="TORCH_DISTRIBUTED_DEBUG=DETAIL crashes DistributedDataParallel on gloo",
    severity=Severity.FAIL,
    remedy="export TORCH_DISTRIBUTED_DEBUG=INFO, which names parameters too, or unset it",
    explains=("DDP191", "DDP403"),
)

VARIABLE = "TORCH_DISTRIBUTED_DEBUG"
FIRST_BAD = (2, 13)  # seen on 2.13.0 and 2.15.0; no release is known to cure it


def check(
    environment: PerRank[Environment], torch: PerRank[TorchBuild] | None, exits: PerRank[RankExit] | None
) -> Iterator[Finding]:
    """One finding where DETAIL is set and a rank has died of SIGSEGV, or would: torch has no GPU and so uses gloo."""
    setters = dict(who_sets(environment, (VARIABLE,))).get(VARIABLE)
    if setters is None or not any(value.upper() == "DETAIL" for value in setters.values):
        return
    dead = [entry.rank for entry in exits or () if entry.value.signal == signal.SIGSEGV]
    if dead:
        yield RULE.finding(
            f"{group_ranks(dead)} died of SIGSEGV with {VARIABLE}=DETAIL set, as DistributedDataParallel(...) on gloo does",
            ranks=dead,
        )
        return
    version = next((entry.value.version for entry in torch or () if entry.value.version), None)
    if version is None:
        raise SkipCheck(f"{VARIABLE}=DETAIL is set, and the version of torch is not known")
    if _numbers(version) >= FIRST_BAD and not any(entry.value.cuda_devices for entry in torch or ()):
        yield RULE.finding(
            f"{VARIABLE}=DETAIL is set{setters.words}: DistributedDataParallel(...) on gloo dies of SIGSEGV in torch {version}",
            ranks=setters.ranks,
            torch=version,
        )


def _numbers(version: str) -> tuple[int, int]:
    major, _, rest = version.partition(".")
    minor = rest.partition(".")[0]
    return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else (0, 0)
