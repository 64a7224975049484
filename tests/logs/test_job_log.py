"""Logs of real jobs that failed: the code, the ranks and the line that each must give."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.logs.job_log import read_logs
from ddpdoctor.model import Severity
from ddpdoctor.workflows.diagnose import gather

LOGS = Path(__file__).parents[1] / "data" / "logs"
JOB = "/home/me/job/job.py"

VERDICTS = [
    ("raised", "DDP401", (1,), (JOB, 48)),
    ("raised_tee", "DDP401", (1,), (JOB, 48)),
    ("raised_recorded", "DDP401", (1,), ("/home/me/job/rec.py", 8)),
    ("redirected", "DDP401", (1,), None),
    ("worker_raised", "DDP401", (1,), (JOB, 22)),
    ("killed", "DDP403", (1,), None),
    ("left_with_0", "DDP306", (1,), (JOB, 60)),
    ("unused_on_one_rank", "DDP404", (1,), (JOB, 59)),
    ("other_count", "DDP406", (1,), (JOB, 34)),
    ("ready_twice", "DDP405", (0, 1), (JOB, 60)),
    ("too_many_files", "DDP410", (1,), (JOB, 55)),
    ("no_nccl", "DDP413", (0, 1), (JOB, 8)),
    ("no_rank_variable", "DDP414", (), (JOB, 8)),
    ("no_main_guard", "DDP417", (), ("/home/me/job/F28.py", 3)),
]


@pytest.mark.parametrize(("name", "code", "ranks", "place"), VERDICTS, ids=[row[0] for row in VERDICTS])
def test_a_failed_jobs_log_gives_its_cause(
    name: str, code: str, ranks: tuple[int, ...], place: tuple[str, int] | None
) -> None:
    report = diagnose(gather([LOGS / f"{name}.txt"]))
    first, *others = report.findings
    assert (first.code, first.ranks) == (code, ranks), first.message
    assert not [other for other in others if other.explained_by is None]
    if place is not None:
        assert (first.where[0].file, first.where[0].line) == place


def test_a_rank_that_fell_silent_is_told_by_its_peers_timeouts() -> None:
    report = diagnose(gather([LOGS / "timed_out.txt"]))
    assert not [finding for finding in report.findings if finding.code in {"DDP401", "DDP403", "DDP306"}]


def test_files_of_one_rank_each_are_told_by_torchruns_directories(tmp_path: Path) -> None:
    for rank, text in enumerate(
        ("step 1\n", "Traceback (most recent call last):\n  File \"/j/t.py\", line 3, in f\nKeyError: 'x'\n")
    ):
        file = tmp_path / "none_x" / "attempt_0" / str(rank) / "stderr.log"
        file.parent.mkdir(parents=True)
        file.write_text(text)
    (finding,) = diagnose(gather([tmp_path])).findings
    assert (finding.code, finding.ranks, finding.message) == ("DDP401", (1,), "rank 1 raised KeyError: 'x'")


def test_code_that_stands_in_a_traceback_twice_is_no_sign_that_the_job_goes_on(tmp_path: Path) -> None:
    """Of a comprehension: its line is that of its function."""
    log = tmp_path / "job.log"
    code = '    loss = step([d["class"] for d in batch] if rank != 2 else batch)\n'
    log.write_text(
        "-- Process 2 terminated with the following error:\nTraceback (most recent call last):\n"
        f'  File "/j/t.py", line 26, in forward\n{code}  File "/j/t.py", line 26, in <listcomp>\n{code}KeyError: \'class\'\n'
    )
    (finding,) = diagnose(gather([log])).findings
    assert (finding.code, finding.ranks) == ("DDP401", (2,))
    assert [where.line for where in finding.where] == [26]


def test_srun_labels_are_ranks_and_its_errors_are_exits(tmp_path: Path) -> None:
    log = tmp_path / "slurm.out"
    log.write_text(
        "0: step 1\n1: step 1\n1: Traceback (most recent call last):\n0: step 2\n"
        '1:   File "/j/t.py", line 3, in f\n1: ValueError: bad\n'
    )
    (finding,) = diagnose(gather([log])).findings
    assert (finding.code, finding.ranks, finding.message) == ("DDP401", (1,), "rank 1 raised ValueError: bad")
    log.write_text(
        "step 1\nsrun: error: node1: task 3: Killed\nslurmstepd: error: Detected 1 oom_kill event in StepId=7.0\n"
    )
    (finding,) = diagnose(gather([log])).findings
    assert (finding.code, finding.ranks) == ("DDP402", (3,))
    log.write_text(
        "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0\nsrun: error: node1: tasks 1-2: Out Of Memory\n"
    )
    (finding,) = diagnose(gather([log])).findings
    assert (finding.code, finding.ranks) == ("DDP402", (1, 2))


def test_a_task_of_srun_that_is_a_torchrun_is_no_rank(tmp_path: Path) -> None:
    log = tmp_path / "slurm.out"
    log.write_text(
        f"{(LOGS / 'killed.txt').read_text()}slurmstepd: error: Detected 1 oom_kill event in StepId=7.0\n"
        "srun: error: node1: task 0: Out Of Memory\n"
    )
    assert [(finding.code, finding.ranks) for finding in diagnose(gather([log])).findings] == [("DDP402", (1,))]


LOST_WORKER = """Traceback (most recent call last):
  File "/home/u/train.py", line 98, in main
    for x, y in loader:
IndexError: Caught IndexError in DataLoader worker process 3.
Original Traceback (most recent call last):
  File "/home/u/data.py", line 33, in __getitem__
    return self.rows[i]
IndexError: list index out of range

"""
TABLE = """train.py FAILED
Failures:
  <NO_OTHER_FAILURES>
Root Cause (first observed failure):
[0]:
  time      : 2024-04-18_10:46:28
  host      : gpu-12
  rank      : 1 (local_rank: 1)
  exitcode  : 1 (pid: 712)
  error_file: <N/A>
============================================================
"""


@pytest.mark.parametrize(("times", "ranks"), [(1, (1,)), (2, ())])
def test_the_only_error_is_that_of_the_only_rank_that_failed(
    times: int, ranks: tuple[int, ...], tmp_path: Path
) -> None:
    log = tmp_path / "job.log"
    log.write_text(LOST_WORKER * times + TABLE)
    finding, *_ = diagnose(gather([log])).findings
    assert (finding.code, finding.ranks, finding.where[0].line) == ("DDP401", ranks, 33)


def test_of_nccls_words_the_last_error_is_shown(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    told = (
        "torch.distributed.DistBackendError: NCCL error in: x.hpp:275, unhandled system error",
        "Last error:",
        "Call to x failed",
    )
    trace = ("Traceback (most recent call last):", '  File "/job/train.py", line 9, in main', *told)
    log.write_text("".join(f"[rank3]: {line}\n" for line in trace))
    (finding,) = diagnose(gather([log])).findings
    assert (finding.code, finding.details) == ("DDP418", ())
    assert finding.message.endswith(": Call to x failed")


def test_a_traceback_behind_rays_marks_is_read(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text("".join(f"(RayTrainWorker pid=4009) {line}\n" for line in LOST_WORKER.splitlines()))
    (finding,) = diagnose(gather([log])).findings
    assert (finding.code, finding.where[0].line) == ("DDP401", 33)


@pytest.mark.parametrize(
    "line",
    [
        "slurmstepd: error: *** JOB 4243 ON node06 CANCELLED AT 2024-05-01T11:11:11 DUE TO TIME LIMIT ***",
        "W0501 11:11:11.0 12 torch/distributed/elastic/agent/server/api.py:719] Received 15 death signal, shutting down workers",
        "[rank0]: Traceback (most recent call last):\n[rank0]: KeyboardInterrupt",
    ],
)
def test_a_job_that_was_ended_from_outside_accuses_nobody_and_says_so(line: str, tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text(f"epoch 1 step 100\n{line}\n")
    report = diagnose(gather([log]))
    assert not report.findings
    assert report.exit_code(Severity.FAIL) == 3
    told = line.rpartition("\n[rank0]: ")[2]
    assert told in report.undecided[0]


def test_the_assertion_of_a_kernel_stands_beside_the_error_that_it_raised(tmp_path: Path) -> None:
    said = (
        "../aten/src/ATen/native/cuda/Loss.cu:250: nll_loss: block: [0,0,0] Assertion `t >= 0 && t < n_classes` failed."
    )
    log = tmp_path / "job.log"
    error = "RuntimeError: CUDA error: device-side assert triggered"
    trace = ("Traceback (most recent call last):", '  File "/job/train.py", line 70, in step', error)
    log.write_text("".join(f"{line}\n" for line in (said, said, *(f"[rank6]: {line}" for line in trace))))
    (finding,) = diagnose(gather([log])).findings
    assert (finding.code, finding.ranks, finding.details) == ("DDP423", (6,), (f"the kernel's message: {said}",))


CAUGHT = """epoch 1 loss 0.1
Traceback (most recent call last):
  File "/job/io.py", line 10, in fetch
    answer = get(url)
TimeoutError: timed out
retrying in 3 s
epoch 2 loss 0.05
"""


def test_an_exception_after_which_the_job_goes_on_ended_nobody(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text(CAUGHT)
    report = diagnose(gather([log]))
    assert not report.findings
    assert report.notes == (
        "this logged exception was caught, and the rank kept running: TimeoutError: timed out (/job/io.py:10)",
    )


def test_where_the_job_failed_what_others_print_after_an_exception_excuses_nobody(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text(CAUGHT + TABLE)
    (finding,) = diagnose(gather([log])).findings
    assert (finding.code, finding.ranks) == ("DDP401", (1,))


@pytest.mark.parametrize(
    ("line", "code", "ranks"),
    [
        (
            "torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with signal SIGSEGV",
            "DDP403",
            (1,),
        ),
        ("torch.multiprocessing.spawn.ProcessExitedException: process 2 terminated with exit code 3", "DDP401", (2,)),
        (
            "[launch.py:322:x] ['/usr/bin/python3', 'train.py', '--local_rank=3'] exits with return code = -9",
            "DDP403",
            (),
        ),
    ],
)
def test_other_launchers_tell_which_rank_ended_and_how(
    line: str, code: str, ranks: tuple[int, ...], tmp_path: Path
) -> None:
    log = tmp_path / "job.log"
    log.write_text(f"step 1\nstep 2\n{line}\n")
    (finding,) = diagnose(gather([log])).findings
    assert (finding.code, finding.ranks) == (code, ranks)


def test_a_rank_that_lost_a_peer_is_not_all_that_is_to_know(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    error = "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.2]:10130"
    log.write_text(f"[rank0]: Traceback (most recent call last):\n[rank0]: {error}\n")
    report = diagnose(gather([log]))
    assert (report.findings, report.exit_code(Severity.FAIL)) == ((), 3)
    lost, first = report.undecided
    assert (
        lost
        == "rank 0 lost a peer, or the network to it, and no error of the peer is in the log: give the logs of all ranks"
    )
    assert first.endswith(f"its first line, of rank 0 (line 2): {error[:200]}")


def test_of_several_logs_the_one_with_the_first_line_of_a_failure_is_named(tmp_path: Path) -> None:
    one, other = tmp_path / "one.log", tmp_path / "other.log"
    one.write_text("step 1 loss 0.3\nstep 2 loss 0.2\n")
    other.write_text("step 1 loss 0.3\nError: no such thing\n")
    (first,) = diagnose(gather([one, other])).undecided
    assert first.endswith(f"its first line (line 2 of {other}): Error: no such thing")


def test_what_torchrun_raised_is_no_ranks(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text(
        'Traceback (most recent call last):\n  File "/venv/bin/torchrun", line 33, in <module>\n    sys.exit(main())\n'
        "TimeoutError: The client socket has timed out after 60s while trying to connect to (10.12.3.162, 10010).\n"
    )
    (finding,) = diagnose(gather([log])).findings
    assert (finding.code, finding.ranks) == ("DDP204", ())
    assert finding.message == "10.12.3.162 port 10010 did not answer within 60 s"


def test_a_loopback_address_without_an_answer_is_the_host_itself(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text(
        "TimeoutError: The client socket has timed out after 60s while trying to connect to (127.0.0.1, 57388).\n"
    )
    (finding,) = diagnose(gather([log])).findings
    assert finding.message == "127.0.0.1 port 57388 did not answer within 60 s; this address is the host itself"
    assert finding.remedy is not None
    assert "set MASTER_ADDR to the name or the address of the first one" in finding.remedy


def test_binary_huge_and_cut_off_logs_give_what_they_hold(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_bytes(
        b"\xff\xfe\x00"[:2]
        + b"x" * 200_000
        + b'\n[rank0]: Traceback (most recent call last):\n[rank0]:   File "/j/t.py", li'
    )
    (facts,) = read_logs([log]).ranks
    assert facts.rank == 0
    log.write_bytes(b"[rank2]: Traceback (most recent call last):\n" * 50_000)
    assert read_logs([log]).ranks[0].rank == 2


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ("torch.distributed.DistNetworkError: socket.gaierror: [Errno -2] Name or service not known", "DDP201"),
        ("torch.distributed.DistStoreError: host not found: Name or service not known worker-0", "DDP201"),
        ("urllib.error.URLError: socket.gaierror: [Errno -2] Name or service not known", "DDP401"),
    ],
)
def test_without_frames_of_torch_the_type_tells_whose_host_name_has_no_address(
    error: str, code: str, tmp_path: Path
) -> None:
    log = tmp_path / "job.log"
    log.write_text(
        "[rank1]: Traceback (most recent call last):\n"
        '[rank1]:   File "/job/train.py", line 12, in <module>\n'
        '[rank1]:     start("gloo")\n'
        f"[rank1]: {error}\n",
        encoding="utf-8",
    )
    first = diagnose(gather([log])).findings[0]
    assert (first.code, first.ranks) == (code, (1,))


WHAT = "  what():  [enforce fail at pair.cc:456] op.preamble.length <= op.nbytes. {got} vs 4. Received data size does not match\n"
TORCHRUNS = (
    "E1123 06:57:55.234000 12170 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: -6) "
    "local_rank: 0 (pid: 12441) of binary: python\n"
)


@pytest.mark.parametrize(
    ("said", "code", "ranks"),
    [
        ([2700], "DDP302", ()),
        ([2700, 64], "DDP403", (0,)),  # one of them is of a process that the launcher does not show
        ([], "DDP403", (0,)),
    ],
    ids=["one", "two", "none"],
)
def test_what_c_plus_plus_says_before_it_aborts_is_of_the_rank_that_sigabrt_ended(
    tmp_path: Path, said: list[int], code: str, ranks: tuple[int, ...]
) -> None:
    words = "".join(
        f"terminate called after throwing an instance of 'gloo::EnforceNotMet'\n{WHAT.format(got=got)}" for got in said
    )
    log = tmp_path / "job.log"
    log.write_text(words + TORCHRUNS)
    (found,) = diagnose(gather([log])).findings
    assert (found.code, found.ranks) == (code, ranks)
