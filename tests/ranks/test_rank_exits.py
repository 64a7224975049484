"""Which ranks their launcher ended, and which ended by themselves."""

from __future__ import annotations

import json
import signal
from pathlib import Path

from ddpdoctor.agent.inside.calls.call_ring import CallRing
from ddpdoctor.agent.inside.schema.call_ring import Header
from ddpdoctor.agent.inside.schema.error import Error
from ddpdoctor.agent.inside.schema.rank_end import ExitCode, Left, RankFailure
from ddpdoctor.analysis.crashes.end_request import without_secondary_error
from ddpdoctor.evidence import Evidence, RankFacts
from ddpdoctor.evidence.job_log import JobLog
from ddpdoctor.evidence.ranks import EndRequest, RankError, RankExit
from ddpdoctor.launch.observed_job import Received
from ddpdoctor.ranks.agent_files import RankProcess, ranks_of_attempts
from ddpdoctor.ranks.rank_exits import asked_to_end, exits_of, failures_in_launch, with_log, without_handled_errors

TORCHRUN = 50
FIRST_PID = 100


def rank(directory: Path, number: int) -> RankProcess:
    pid = FIRST_PID + number
    (directory / f"{pid}.ring").touch()
    header = Header(
        rank=number, world_size=4, written=9, forwards=9, steps=9, last_ns=1_800_000_000_000_000_000, returned=9
    )
    return RankProcess(directory=directory, pid=pid, header=header)


def collected(*codes: tuple[int, int, float], parent: int = TORCHRUN) -> dict[int, ExitCode]:
    return {pid: ExitCode(pid=pid, code=code, at=at, parent=parent) for pid, code, at in codes}


def ended_by_launcher(
    ranks: list[RankProcess], ended: dict[int, ExitCode], *, killed_at: float | None = None
) -> list[int]:
    exits = exits_of(ranks, ended, main=(TORCHRUN, 1), killed_at=killed_at)
    return [number for number, one in sorted(exits.items()) if one.ended_by_launcher]


def test_ranks_ended_after_a_rank_without_an_agent_failed_are_no_culprits(tmp_path: Path) -> None:
    """Rank 1 never said who it was: that its peers were sent SIGTERM after its end is their launcher's doing."""
    ranks = [rank(tmp_path, 0), rank(tmp_path, 2)]
    peers = [(FIRST_PID, -signal.SIGTERM, 12.0), (FIRST_PID + 2, -signal.SIGTERM, 12.1)]

    assert ended_by_launcher(ranks, collected((FIRST_PID + 1, 1, 11.0), *peers)) == [0, 2]
    assert ended_by_launcher(ranks, collected(*peers)) == [
        2
    ]  # healthy twin: nobody failed before rank 0 was sent SIGTERM


def test_the_failures_of_an_earlier_attempt_and_of_helpers_accuse_nobody(tmp_path: Path) -> None:
    """What failed before a restart, or below a rank, is no reason for a launcher to end a rank of now."""
    before, now = rank(tmp_path, 0), rank(tmp_path, 1)
    killed = collected((before.pid, 1, 11.0), (now.pid, -signal.SIGKILL, 20.0))
    helper = collected((900, 1, 11.0), parent=now.pid)

    assert ended_by_launcher([now], killed | helper) == []


def test_what_failed_in_an_earlier_attempt_before_it_joined_ends_no_rank_of_now(tmp_path: Path) -> None:
    """Process 900 raised before it joined; its peer was ended, and the launcher started both again."""
    for pid, restart in ((800, 0), (FIRST_PID, 1)):
        CallRing(str(tmp_path / f"{pid}.ring"), rank=0, world_size=2, restart=restart)
    (now,) = ranks_of_attempts(tmp_path)[1]
    before = collected((900, 1, 11.0), (800, -signal.SIGTERM, 11.1))

    assert ended_by_launcher([now], before | collected((now.pid, -signal.SIGKILL, 20.0))) == []
    assert ended_by_launcher([now], before | collected((901, 1, 19.0), (now.pid, -signal.SIGKILL, 20.0))) == [0]


def test_a_rank_that_crashed_unseen_says_by_which_signal(tmp_path: Path) -> None:
    """No launcher of ours collected its exit code: Lightning's rank 0 starts the others itself, and may end before them."""
    crashed, gone = rank(tmp_path, 1), rank(tmp_path, 2)
    crashed.file("crash").write_text(
        'Fatal Python error: Aborted\n\nCurrent thread 0x1 (most recent call first):\n  File "train.py", line 3 in fit\n'
    )
    exits = exits_of([crashed, gone], {}, main=(TORCHRUN, 1), killed_at=None)
    assert {number: one.exit_code for number, one in exits.items()} == {1: -signal.SIGABRT, 2: None}
    assert [frame.line for frame in exits[1].native_stack] == [3]


def test_a_signal_that_only_the_ranks_users_know_of_ends_a_job_if_it_died_of_it() -> None:
    usr1, term = Received(signal.SIGUSR1, 10.0), Received(signal.SIGTERM, 20.0)
    assert asked_to_end([usr1, term], {1}, 50.0) == term
    assert asked_to_end([usr1], {0, 1}, 50.0) is None
    assert asked_to_end([usr1], {-signal.SIGUSR1}, 50.0) == usr1
    assert (
        asked_to_end([usr1], {1, -signal.SIGUSR1}, 50.0) == usr1
    )  # torchrun handed it on to its ranks, and ended with 1
    assert asked_to_end([term], {1}, 5000.0) is None  # it went on for more than an hour


def test_what_ranks_die_of_once_the_job_is_to_end_is_nobodys_failure(tmp_path: Path) -> None:
    ranks = [rank(tmp_path, number) for number in range(5)]
    codes = (-signal.SIGTERM, -signal.SIGKILL, 1, -signal.SIGSEGV, 0)
    ended = collected(*((FIRST_PID + number, code, 21.0) for number, code in enumerate(codes)))

    def as_asked(at: float) -> list[int]:
        asked = Received(signal.SIGTERM, at)
        exits = exits_of(ranks, ended, main=(TORCHRUN, 1), killed_at=None, asked=asked)
        return [number for number, one in sorted(exits.items()) if one.ended_by_launcher]

    assert as_asked(20.0) == [0, 1, 2, 4]  # also the one whose handler leaves with code 0
    assert as_asked(30.0) == []  # they had ended before anybody asked


def test_an_error_of_a_ranks_own_outlives_the_order_to_end_and_an_echo_does_not() -> None:
    request = EndRequest(signal=signal.SIGINT, at=20.0)
    texts = {0: ("KeyboardInterrupt", "", 21.0), 1: ("OSError", "disk full", 21.0), 2: ("KeyboardInterrupt", "", 15.0)}
    exits = {
        number: RankExit(exit_code=1, error=RankError(type=kind, message=text), ended_at=at)
        for number, (kind, text, at) in texts.items()
    }
    silenced = {number: without_secondary_error(one, request) for number, one in exits.items()}
    assert [number for number, one in silenced.items() if one.error is not None] == [1, 2]
    assert [number for number, one in silenced.items() if one.ended_by_launcher] == [0]


def test_a_rank_that_was_killed_before_we_ended_the_job_was_not_ended_by_us(tmp_path: Path) -> None:
    """Out of memory while the others waited for it; of the others we were the end."""
    ranks = [rank(tmp_path, 0), rank(tmp_path, 1)]
    killed = collected((FIRST_PID, -signal.SIGTERM, 12.0), (FIRST_PID + 1, -signal.SIGKILL, 11.0))

    assert ended_by_launcher(ranks, killed, killed_at=11.5) == [0]
    assert ended_by_launcher(ranks, killed, killed_at=10.5) == [0, 1]


def test_a_rank_whose_handler_leaves_with_code_0_once_we_end_the_job_was_ended_by_us(tmp_path: Path) -> None:
    ranks = [rank(tmp_path, 0), rank(tmp_path, 1)]
    left = collected((FIRST_PID, 0, 12.0), (FIRST_PID + 1, 0, 11.0))
    assert ended_by_launcher(ranks, left, killed_at=11.5) == [0]
    assert ended_by_launcher(ranks, left) == []


def test_ranks_that_are_gone_with_a_launcher_that_was_killed_were_killed_like_it(tmp_path: Path) -> None:
    """A torchrun that SIGKILL ends collects nobody. Rank 1 came to the end of its program, rank 2 had raised before."""
    ranks = [rank(tmp_path, number) for number in range(3)]
    (tmp_path / f"{FIRST_PID + 1}.left").write_text(json.dumps(Left(1_800_000_000.0)))
    error = RankFailure(1_799_999_999.0, Error("OSError", "disk full"))
    (tmp_path / f"{FIRST_PID + 2}.error").write_text(json.dumps(error))

    def codes(main: int) -> dict[int, int | None]:
        exits = exits_of(ranks, {}, main=(TORCHRUN, main), killed_at=None)
        return {number: one.exit_code for number, one in sorted(exits.items())}

    assert codes(-signal.SIGKILL) == codes(128 + signal.SIGKILL) == {0: -signal.SIGKILL, 1: None, 2: 1}
    assert codes(1) == {0: None, 1: None, 2: 1}  # healthy twin: a launcher that ended by itself
    killed_by_us = exits_of(ranks, {}, main=(TORCHRUN, -signal.SIGKILL), killed_at=12.0)
    assert killed_by_us[0].ended_by_launcher


def test_what_a_rank_raises_after_we_ended_the_job_is_no_failure_of_its_own(tmp_path: Path) -> None:
    """Our signal ends the subprocess that it waits for, and the rank says so before it ends itself."""
    ranks = [rank(tmp_path, 0)]
    error = RankFailure(20.0, Error("CalledProcessError", "Command '['sleep', '3600']' died with SIGTERM"))
    (tmp_path / f"{FIRST_PID}.error").write_text(json.dumps(error))

    def failed(killed_at: float | None) -> bool:
        (one,) = exits_of(ranks, collected((FIRST_PID, 1, 20.1)), main=(TORCHRUN, 1), killed_at=killed_at).values()
        return one.error is not None and not one.ended_by_launcher

    assert not failed(killed_at=19.9)
    assert failed(killed_at=None)
    assert failed(killed_at=20.05)


def test_of_a_rank_that_ended_before_it_joined_the_log_alone_tells() -> None:
    raised = RankExit(exit_code=1, error=RankError(type="KeyError", message="'label 11'"))
    log = Evidence(ranks=tuple(RankFacts(rank=number, host="host-a", facts=(raised,)) for number in (0, 1)))

    exits, _ = with_log({}, log, joined={0})

    assert exits == {1: raised}


def test_errors_that_a_job_printed_which_ended_well_are_handled_ones() -> None:
    """And where a rank failed, or no rank is known, they may be why."""
    error = RankError(type="ValueError", message="bad sample")
    log = JobLog(files=("job.log",), lines=9, errors=(error,))
    well, failed, unknown = (RankExit(exit_code=code) for code in (0, 1, None))

    kept = without_handled_errors({0: well, 1: well}, log)
    assert (kept.errors, kept.handled) == ((), (error,))
    assert without_handled_errors({0: well, 1: failed}, log) is log
    assert without_handled_errors({0: well, 1: unknown}, log) is log
    assert without_handled_errors({}, log) is log


def test_a_failure_of_an_earlier_attempt_is_one_of_the_launch(tmp_path: Path) -> None:
    """And one of a helper below a rank is none."""
    before, now = rank(tmp_path, 0), rank(tmp_path, 1)
    well, helper = collected((now.pid, 0, 20.0)), collected((900, 1, 11.0), parent=now.pid)
    assert [*failures_in_launch([now], well | helper)] == []
    assert [one.pid for one in failures_in_launch([now], well | collected((before.pid, 1, 11.0)))] == [before.pid]


def test_a_rank_that_its_launcher_ended_says_where_its_main_thread_was(tmp_path: Path) -> None:
    ranks = [rank(tmp_path, 0), rank(tmp_path, 1)]
    (tmp_path / f"{FIRST_PID}.ending").write_text(THREADS)
    (tmp_path / f"{FIRST_PID + 1}.ending").write_text(THREADS)
    ended = collected((FIRST_PID + 1, 1, 11.0), (FIRST_PID, -signal.SIGTERM, 12.0))
    exits = exits_of(ranks, ended, main=(TORCHRUN, 1), killed_at=None)
    assert [(frame.file, frame.line) for frame in exits[0].ended_in] == [
        ("/job/manifest.py", 21),
        ("/job/train.py", 13),
    ]
    assert not exits[1].ended_in  # it failed by itself


THREADS = """Thread 0x00007f01 [ddpdoctor] (most recent call first):
  File "/opt/ddpdoctor/agent/inside/process/recorder_socket.py", line 88 in _keep_threads

Thread 0x00007f02 [python] (most recent call first):
  File "/job/manifest.py", line 21 in wait_for
  File "/job/train.py", line 13 in main
"""
