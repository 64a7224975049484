"""TORCH_DISTRIBUTED_DEBUG=DETAIL kills the constructor of DistributedDataParallel on gloo with SIGSEGV, without a word."""

import signal
from collections.abc import Iterator

from ddpdoctor.analysis.launch.group_by_value import Setters, who_sets
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.frames import users_frame
from ddpdoctor.evidence.host import Environment
from ddpdoctor.evidence.ranks import RankExit
from ddpdoctor.evidence.torch_build import TorchBuild
from ddpdoctor.model import Finding, Rule, Severity, SkipCheck, Where, group_ranks
from ddpdoctor.whole_numbers import whole_number

RULE = Rule(
    code="DDP411",
    name="detail-debug-crashes-gloo",
    summary="TORCH_DISTRIBUTED_DEBUG=DETAIL crashes DistributedDataParallel on gloo",
    severity=Severity.FAIL,
    shown_by="TORCH_DISTRIBUTED_DEBUG=DETAIL is set, and the backend is gloo",
    remedy="export TORCH_DISTRIBUTED_DEBUG=INFO, which names parameters too, or unset it",
    explains=("DDP191", "DDP403"),
)

VARIABLE = "TORCH_DISTRIBUTED_DEBUG"
FIRST_BAD = (2, 13)  # seen on 2.13.0 and 2.15.0; no release is known to cure it


def check(
    environment: PerRank[Environment] | None, torch: PerRank[TorchBuild] | None, exits: PerRank[RankExit] | None
) -> Iterator[Finding]:
    """One finding where DETAIL is set and a rank has died of SIGSEGV, or would: torch has no GPU and so uses gloo."""
    if environment is None and exits is None:
        raise SkipCheck("no environment variables and no exit status of any rank")
    setters = dict(who_sets(environment, (VARIABLE,))).get(VARIABLE) if environment is not None else None
    launched_with = setters is not None and any(map(_is_detail, setters.values))
    crashed = [entry for entry in exits or () if entry.value.signal == signal.SIGSEGV]
    dead = [entry.rank for entry in crashed if launched_with or _is_detail(entry.value.debug or "")]
    if dead:
        yield RULE.finding(
            f"{group_ranks(dead)} died of SIGSEGV with {VARIABLE}=DETAIL set, as DistributedDataParallel(...) on gloo does",
            ranks=dead,
            where=[where for entry in crashed if (where := _where(entry.rank, entry.value)) is not None],
        )
    elif setters is not None and launched_with:
        yield from _would(setters, torch)


def _would(setters: Setters, torch: PerRank[TorchBuild] | None) -> Iterator[Finding]:
    version = next((entry.value.version for entry in torch or () if entry.value.version), None)
    if version is None:
        raise SkipCheck(f"{VARIABLE}=DETAIL is set, and the version of torch is not known")
    if _numbers(version) >= FIRST_BAD and not any(entry.value.cuda_devices for entry in torch or ()):
        yield RULE.finding(
            f"{VARIABLE}=DETAIL is set{setters.suffix}: DistributedDataParallel(...) on gloo dies of SIGSEGV in torch {version}",
            ranks=setters.ranks,
            torch=version,
        )


def _is_detail(value: str) -> bool:
    return value.upper() == "DETAIL"


def _where(rank: int, ending: RankExit) -> Where | None:
    place = users_frame(ending.native_stack)
    if place is None:
        return None
    return Where.at(place, rank=rank, note="was here")


def _numbers(version: str) -> tuple[int, int]:
    major, _, rest = version.partition(".")
    minor = rest.partition(".")[0]
    first, second = whole_number(major), whole_number(minor)
    return (first, second) if first is not None and second is not None else (0, 0)
