"""The attempts of a job in its log."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence.ranks import RankExit
from ddpdoctor.logs.attempts import AttemptEnd, LogAttempts
from ddpdoctor.logs.job_log import read_logs
from ddpdoctor.model import Severity
from ddpdoctor.workflows.diagnose import gather

RESTARTED = Path(__file__).parents[1] / "data" / "logs" / "restarted.txt"
FAILED = (
    "E1129 12:36:33.608000 {launcher} torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: 1) "
    "local_rank: {rank} (pid: {pid}) of binary: python\n"
)
TABLE = (
    "train.py FAILED\nFailures:\n  <NO_OTHER_FAILURES>\nRoot Cause (first observed failure):\n[0]:\n"
    "  time      : 2026-11-29_12:36:33\n  host      : a\n  rank      : 1 (local_rank: 1)\n  exitcode  : 1 (pid: 11)\n"
    "  error_file: <N/A>\n  traceback : -\n"
)
ERROR = (
    "[rank{rank}]: Traceback (most recent call last):\n"
    '[rank{rank}]:   File "/j/t.py", line 3, in f\n'
    "[rank{rank}]: {error}\n"
)


def test_the_first_attempts_error_is_the_cause_of_a_job_that_could_not_connect_again() -> None:
    first, second = diagnose(gather([RESTARTED])).findings

    assert (first.code, first.ranks, first.where[0].line) == ("DDP401", (1,), 8)
    assert (second.code, second.explained_by) == ("DDP229", "DDP401")


def test_errors_belong_to_their_attempts(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text(
        ERROR.format(rank=1, error="KeyError: 'a'")
        + FAILED.format(launcher=7, rank=1, pid=11)
        + ERROR.format(rank=0, error="ValueError: b")
        + FAILED.format(launcher=7, rank=0, pid=20)
    )

    read = read_logs([log])

    (earlier,) = read.earlier
    for attempt, expected in ((earlier, {1: "KeyError"}), (read, {0: "ValueError"})):
        exits = attempt.per_rank(RankExit)
        assert exits is not None
        assert {entry.rank: entry.value.error.type for entry in exits if entry.value.error is not None} == expected


def test_launchers_of_two_nodes_that_each_report_a_failure_are_one_attempt(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text(FAILED.format(launcher=7, rank=1, pid=11) + FAILED.format(launcher=8, rank=0, pid=20))

    assert read_logs([log]).earlier == ()


@pytest.mark.parametrize(("restarts", "count"), [(0, 1), (1, 2)])
def test_one_failure_is_the_end_unless_the_ranks_are_known_to_have_been_started_again(
    restarts: int, count: int
) -> None:
    assert LogAttempts.between([AttemptEnd("job.log", 5, 7)], restarts=restarts).count == count


def test_a_log_in_two_files_is_one_launchers() -> None:
    """As `watch` keeps the tail of stderr."""
    ends = [AttemptEnd("old", 5, 7), AttemptEnd("tail", 20, 7), AttemptEnd("tail", 30, 7)]

    attempts = LogAttempts.between(ends)

    assert [attempts.of_line("tail", line) for line in (18, 20, 21, 30)] == [1, 1, 2, 2]


STEPS = "".join(f"step {number} loss 0.{number}\n" for number in range(100, 103))
FIRST = STEPS + ERROR.format(rank=1, error="KeyError: 'a'") + FAILED.format(launcher=7, rank=1, pid=11)


def test_an_attempt_after_which_ranks_work_again_is_a_warning(tmp_path: Path) -> None:
    """Of a restart, torchrun prints no more than the failure before it."""
    log = tmp_path / "job.log"
    log.write_text(FIRST + STEPS.replace("0.", "1."))

    (finding,) = diagnose(gather([log])).findings

    assert (finding.code, finding.severity, finding.ranks) == ("DDP401", Severity.WARN, (1,))
    assert finding.details[0] == "in attempt 1 of 2: the launcher started the ranks again"


def test_a_summary_behind_the_last_failure_is_no_restart(tmp_path: Path) -> None:
    """Neither what another program prints then, nor steps that another node still makes before torchrun's table."""
    log = tmp_path / "job.log"
    log.write_text(FIRST + "wandb: train/loss 0.4\nwandb: train/step 120\nwandb: train/epoch 2\n")
    assert read_logs([log]).earlier == ()
    log.write_text(FIRST + STEPS.replace("0.", "1.") + TABLE)
    assert read_logs([log]).earlier == ()
