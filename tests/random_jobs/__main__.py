"""`python -m tests.random_jobs`: how many random sets of dumps get one headline with the right code and ranks."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from ddpdoctor.engine import diagnose
from ddpdoctor.model import Finding, Report, Severity
from ddpdoctor.workflows.diagnose import gather
from tests.random_jobs.cases import FAULTS, Case, case


def report_of(one: Case, log: str = "") -> Report:
    """What `ddpdoctor diagnose` says of a case; with the log of the job where there is one."""
    with tempfile.TemporaryDirectory(prefix="random-jobs-") as folder:
        (Path(folder) / "dumps").mkdir()
        one.write(Path(folder) / "dumps")
        if log:
            (Path(folder) / "job.log").write_text(log)
        report = diagnose(gather([Path(folder)]))
        assert not report.crashed, report.crashed
        return report


def findings(one: Case, log: str = "") -> tuple[Finding, ...]:
    """The headlines of that report."""
    found = (finding for finding in report_of(one, log).findings if finding.severity is not Severity.INFO)
    return tuple(finding for finding in found if finding.explained_by is None)


def wrong(one: Case, found: Sequence[Finding]) -> str:
    """What is wrong with these findings; empty where they are right."""
    if not one.truth.codes:
        return "; ".join(f"{finding.code} {finding.message}" for finding in found)
    if not found:
        return "silence"
    first, *others = found
    if first.code not in one.truth.codes or first.ranks not in one.truth.ranks:
        return f"{first.code} {first.ranks} {first.message}"
    if one.truth.members and [*one.truth.members] != first.measured.get("members"):
        return f"members {first.measured.get('members')}: {first.message}"
    return f"besides: {others[0].code} {others[0].message}" if others else ""


def main() -> int:
    """Print each wrong case and a count per fault; 1 where one is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.random_jobs", description=__doc__)
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 300), metavar=("FIRST", "END"))
    parser.add_argument("--fault", choices=FAULTS)
    parser.add_argument("--quiet", action="store_true", help="only the counts")
    options = parser.parse_args()
    right: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for seed in range(*options.seeds):
        one = case(seed, options.fault)
        if one is None:
            continue
        verdict = wrong(one, findings(one))
        total[one.fault] += 1
        right[one.fault] += not verdict
        if verdict and not options.quiet:
            print(f"{seed}: {one.told}\n    expected {one.truth}\n    {verdict[:400]}", flush=True)
    for fault in total:
        print(f"{fault}: {right[fault]} of {total[fault]}")
    print(f"{right.total()} of {total.total()}")
    return int(right.total() < total.total())


if __name__ == "__main__":
    sys.exit(main())
