"""Ends of ranks as logs and watching show them."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from ddpdoctor.evidence import Evidence, RankFacts
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.job_log import JobLog
from ddpdoctor.evidence.ranks import RankError, RankExit
from ddpdoctor.workflows.diagnose import gather

PLACE = Frame(file="/home/me/job/train.py", line=48, function="train")
TORCH = Frame(
    file="/opt/venv/lib/python3.11/site-packages/torch/autograd/graph.py", line=979, function="_engine_run_backward"
)
CLOSED = (
    "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.2]:10130. This is "
    "typically caused by a remote worker crashing. Check the logs of the remote worker before reporting an error."
)

WRONG_SIZE = (
    "  what():  [enforce fail at /pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:456] op.preamble.length <= op.nbytes. "
    "180 vs 68. Received data size doesn't match expected size. Is there a distributed collective mismatch in your code?"
)


def raised(message: str, kind: str = "RuntimeError", *, order: int = 0, code: int = 1, **more: Any) -> RankExit:
    """A rank that ended with this exception, raised at line 48 of train.py."""
    return RankExit(
        exit_code=code, error=RankError(type=kind, message=message, stack=(TORCH, PLACE)), order=order, **more
    )


LOST_PEER = raised(CLOSED, order=9)
FINE = RankExit(exit_code=0)


def ended(*each: RankExit | tuple[Any, ...] | None, job: tuple[Any, ...] = ()) -> Evidence:
    """A job whose rank N ended as `each[N]`, alone or with other facts; None for a rank of which nothing is known."""
    known = {rank: one if isinstance(one, tuple) else (one,) for rank, one in enumerate(each) if one is not None}
    facts = (RankFacts(rank=rank, host="host-a", facts=told) for rank, told in known.items())
    return Evidence(job=job, ranks=tuple(facts), about_job=True)


def logged(*errors: RankError, said: tuple[str, ...] = (), ended_by: str | None = None) -> Evidence:
    """A log that tells these things without saying of which rank."""
    return Evidence(
        job=(JobLog(files=("job.log",), lines=9, errors=errors, said=said, ended_by=ended_by),), about_job=True
    )


def gave_up(
    rank: int, op: str = "ALLREDUCE", *, seq: int = 41, numel: int = 1000, last: int = 43, group: str = "0(default_pg)"
) -> RankExit:
    """A rank that NCCL's watchdog ended in this call, the calls up to number `last` having been made."""
    work = f"WorkNCCL(SeqNum={seq}, OpType={op}, NumelIn={numel}, NumelOut={numel}, Timeout(ms)=600000)"
    caught = f"Watchdog caught collective operation timeout: {work} ran for 600042 milliseconds before timing out."
    known = f"Timeout at NCCL work: {seq}, last enqueued NCCL work: {last}, last completed NCCL work: {seq - 1}."
    return RankExit(
        exit_code=-6,
        tail=(
            f"[E626 06:24:44.1 ProcessGroupNCCL.cpp:616] [Rank {rank}] {caught}",
            f"[E626 06:24:44.2 ProcessGroupNCCL.cpp:1785] [PG ID 0 PG GUID {group} Rank {rank}] {known}",
        ),
    )


def stood_still(rank: int) -> RankExit:
    """A rank that the monitor of NCCL's watchdog ended, because the watchdog itself came no further."""
    told = "ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in monitoring enqueued collectives."
    place = f"[E626 05:14:36.3 ProcessGroupNCCL.cpp:1743] [PG ID 0 PG GUID 0(default_pg) Rank {rank}]"
    return RankExit(exit_code=-6, tail=(f"{place} {told}",))


def from_log(text: str) -> Evidence:
    """What a log with this text shows, as `diagnose` reads it."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "job.log"
        file.write_text(text)
        evidence = gather([file])
    job = tuple(replace(fact, files=("job.log",)) if isinstance(fact, JobLog) else fact for fact in evidence.job)
    return replace(evidence, job=job)
