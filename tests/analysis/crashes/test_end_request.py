"""A case of an interrupted job holds what its ranks printed; rules see it without the errors that only show the interrupt."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ddpdoctor import case
from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence, RankFacts
from ddpdoctor.evidence.job_log import FailureLine, JobLog
from ddpdoctor.evidence.ranks import EndRequest, JobSize, RankError, RankExit
from ddpdoctor.workflows.diagnose import gather


def interrupted(*errors: RankError, asked: bool = True) -> Evidence:
    ends = (RankExit(exit_code=1, error=error, ended_at=21.0, order=number) for number, error in enumerate(errors))
    return Evidence(
        job=(JobSize(ranks=len(errors) + 1), *((EndRequest(signal=2, at=20.0),) if asked else ())),
        ranks=tuple(RankFacts(rank=rank, host="a", facts=(end,)) for rank, end in enumerate(ends)),
        about_job=True,
    )


INTERRUPT = RankError(type="KeyboardInterrupt", message="")
LOST = RankError(type="RuntimeError", message="[gloo] Connection closed by peer [127.0.0.1]:4711")
DISK = RankError(type="OSError", message="cannot write the checkpoint")


def test_the_case_keeps_the_errors_and_the_rules_do_not_see_them(tmp_path: Path) -> None:
    evidence = interrupted(INTERRUPT, LOST)
    saved = case.load(case.save(evidence, tmp_path))
    ends = saved.per_rank(RankExit)
    assert ends is not None
    assert [entry.value.error for entry in ends] == [INTERRUPT, LOST]
    report = diagnose(saved)
    assert not report.findings
    assert not report.undecided


def test_what_the_launcher_prints_of_the_request_is_no_unexplained_failure() -> None:
    said = "torch.distributed.elastic.multiprocessing.api.SignalException: Process 4711 got signal: 15"
    log = JobLog(
        files=("stderr.log",),
        lines=9,
        failure_lines=(FailureLine(text=said),),
        ended_by=said,
    )
    ended = RankExit(exit_code=-15, ended_by_launcher=True)

    def silent(*request: EndRequest, code: int = -15, known: int = 2, log: JobLog = log) -> bool:
        end = replace(ended, exit_code=code, ended_by_launcher=code == -15)
        ranks = tuple(RankFacts(rank=rank, host="a", facts=(end,)) for rank in range(known))
        report = diagnose(Evidence(job=(JobSize(ranks=2), log, *request), ranks=ranks))
        return not report.undecided and not report.findings

    asked = EndRequest(signal=15, at=20.0)
    assert silent(asked)
    assert not silent(asked, code=3), "the ranks ended by themselves"
    assert not silent(asked, known=1), "the other rank may have failed"
    assert not silent(asked, known=0)
    of_nobody = replace(log, errors=(RankError(type="OSError", message="no space left on device"),))
    assert not silent(asked, log=of_nobody)


def test_a_rank_that_lost_another_one_after_the_request_is_no_unexplained_failure() -> None:
    """Of ranks that end one after the other, the last one loses the first, and prints it as the cause of its interrupt."""
    asked = EndRequest(signal=2, at=20.0)
    evidence = interrupted(INTERRUPT, INTERRUPT).with_each(
        RankExit, lambda rank, end: replace(end, tail=(f"RuntimeError: {LOST.message}",) if rank == 0 else ())
    )
    log = JobLog(files=("stderr.log",), lines=9)
    report = diagnose(replace(evidence, job=(JobSize(ranks=2), log, asked)))
    assert not report.findings
    assert not report.undecided


def test_an_error_of_a_ranks_own_is_a_finding_all_the_same() -> None:
    (finding,) = diagnose(interrupted(INTERRUPT, DISK)).findings
    assert (finding.code, finding.ranks) == ("DDP401", (1,))


def test_without_a_request_the_lost_peer_is_asked_about() -> None:
    (reason,) = diagnose(interrupted(LOST, LOST, asked=False)).undecided
    assert reason.startswith("ranks 0-1 lost a peer")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("Received 2 death signal, shutting down workers", "the job was ended from outside by SIGINT (Ctrl-C): "),
        ("Received 15 death signal, shutting down workers", "the job was ended from outside by SIGTERM: "),
        (
            "slurmstepd: error: *** STEP 1.0 ON n1 CANCELLED AT 2026-01-01T00:00:00 ***",
            "the job was ended from outside: ",
        ),
    ],
)
def test_a_log_of_a_job_that_somebody_ended_names_the_signal(tmp_path: Path, line: str, said: str) -> None:
    log = tmp_path / "job.log"
    log.write_text(f"W1124 02:00:00.000 1 torch/distributed/elastic/agent/server/api.py:739] {line}\n")
    report = diagnose(gather([log]))
    assert any(note.startswith(said) for note in report.undecided)
