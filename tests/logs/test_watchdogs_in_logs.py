"""What the watchdogs of ranks say of a timeout tells which ranks came into the call, whatever stands before the line."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.workflows.diagnose import gather

LOGS = Path(__file__).parents[1] / "data" / "logs"


def test_the_watchdogs_of_old_torch_name_their_ranks_themselves(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text(
        "".join(
            f"[E ProcessGroupNCCL.cpp:737] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={seq}, "
            "OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1802212 milliseconds before timing out.\n"
            for rank, seq in enumerate((508, 508, 400))
        )
    )
    (finding,) = diagnose(gather([log])).findings
    assert (finding.code, finding.ranks) == ("DDP408", ())  # such a log does not say whether all stood in one group
    assert finding.details == ("NCCL watchdog timeouts: ranks 0-1 in all_reduce #508; rank 2 in all_reduce #400",)


PLACE = "[E626 06:24:44.9 ProcessGroupNCCL.cpp:632]"
WORK = "WorkNCCL(SeqNum=808, OpType=ALLREDUCE, NumelIn=980, NumelOut=980, Timeout(ms)=600000)"
DONE = "sequence id: 808 PG status: last enqueued work: 811, last completed work: 807"  # since torch 2.6
WATCHDOG = (
    f"{PLACE} [Rank {{rank}}] Watchdog caught collective operation timeout: {WORK} ran for 600020 milliseconds.\n",
    f"{PLACE} [PG ID 0 PG GUID 0(default_pg) Rank {{rank}}]  failure detected by watchdog at work {DONE}\n",
)


@pytest.mark.parametrize(
    "before",
    [
        "", "(RayTrainWorker pid=4009, ip=10.0.0.2) ", "node03: ", "worker-1  | ", "[pod/train-0/pytorch] ",
        "2025-06-26T06:24:44.903Z ", "Epoch 0:   6%|#  | 32040/500150 [6:28<94:39,  1.37it/s, loss=2.6]",
    ],
)  # fmt: skip
def test_watchdogs_are_heard_behind_what_collectors_and_progress_bars_write(before: str, tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text("".join(f"{before}[rank{rank}]:{line.format(rank=rank)}" for rank in (1, 2, 3) for line in WATCHDOG))
    (finding,) = diagnose(gather([log])).findings
    assert finding.message == "ranks 1-3 gave up waiting in all_reduce #808 after 600 s"
    told, silent = finding.details
    assert told.endswith("ranks 1-3 in all_reduce #808")
    assert silent.startswith("the watchdog of rank 0 said nothing: ")


def test_ranks_that_gave_up_in_one_call_are_said_to_have_come_in_time(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text("".join(f"[rank{rank}]:{line.format(rank=rank)}" for rank in (0, 1) for line in WATCHDOG))
    (finding,) = diagnose(gather([log])).findings
    assert finding.details[1].startswith("every logged rank reached this call: ")


def test_a_watchdog_that_gives_only_the_number_of_the_call_has_said_something(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    said = [f"[rank{rank}]:{line.format(rank=rank)}" for rank in (0, 1, 3) for line in WATCHDOG]
    log.write_text("".join(line for line in said if not line.startswith("[rank1]") or "Watchdog caught" not in line))
    (finding,) = diagnose(gather([log])).findings
    assert finding.message == "ranks 0-1,3 gave up waiting in all_reduce #808 after 600 s"
    assert finding.details[0].endswith("ranks 0-1,3 in all_reduce #808")
    assert finding.details[1].startswith("the watchdog of rank 2 said nothing: ")


def test_the_advice_is_to_look_before_the_timeout_ends_the_job(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    error = "RuntimeError: [unbound_buffer.cc:78] Timed out waiting 20000ms for recv operation to complete"
    log.write_text(f"[rank0]: Traceback (most recent call last):\n[rank0]: {error}\n")
    (finding,) = diagnose(gather([log])).findings
    assert "`ddpdoctor watch --stall-after 10`" in finding.remedy
