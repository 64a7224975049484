"""What a report says of a set: right, undecided, or wrong."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from ddpdoctor.engine import diagnose
from ddpdoctor.model import Finding, Report, Severity
from ddpdoctor.workflows.diagnose import gather
from tests.stream_jobs.faults import Fault
from tests.stream_jobs.sets import DumpSet


class Verdict(Enum):
    """How the headline compares with the truth."""

    EXACT = "exact"
    TIED = "tied"
    """Of two members of a group that called different things, both are shown, since no majority tells."""
    UNDECIDED = "undecided"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict, and what was said."""

    verdict: Verdict
    told: str


def judge(job: DumpSet, folder: Path) -> Judgement:
    """One finding that fails, with a code of the fault and its ranks, is exact; none is undecided."""
    report = diagnose(gather([folder]))
    found = headlines(report)
    told = "; ".join(f"{one.code} {[*one.ranks]} {one.message}" for one in found) or "nothing"
    if not found:
        return Judgement(Verdict.UNDECIDED, told)
    if len(found) == 1 and (_names(found[0], job.fault) or _suspects(found[0], job)):
        return Judgement(Verdict.EXACT, told)
    tied = len(found) == 1 and _is_one_of_two(found[0], job.fault)
    return Judgement(Verdict.TIED if tied else Verdict.WRONG, told)


def headlines(report: Report) -> list[Finding]:
    """The findings that fail and that no other one explains."""
    return [one for one in report.findings if one.severity is Severity.FAIL and one.explained_by is None]


def _is_one_of_two(finding: Finding, fault: Fault) -> bool:
    return finding.code in fault.codes and len(finding.ranks) == 2 and {*fault.ranks} < {*finding.ranks}


def _suspects(finding: Finding, job: DumpSet) -> bool:
    """Whether it says that a rank left no dump, or an early one, where these were lost: nobody can tell that from a death."""
    lost = {*job.recorder.missing, *job.recorder.early}
    return finding.code == "DDP408" and bool(lost) and {*finding.ranks} == lost | {*job.fault.trouble.dead}


def _names(finding: Finding, fault: Fault) -> bool:
    if finding.code not in fault.codes:
        return False
    if finding.code == "DDP314":
        members = finding.measured["members"]
        assert isinstance(members, list | tuple)
        if fault.kind == "stuck link":
            return (*members,) == fault.ranks
        return finding.ranks in {(), fault.ranks} and not {*fault.ranks}.isdisjoint(members)
    return {*fault.ranks} <= {*finding.ranks} <= {*fault.ranks, *fault.hidden}
