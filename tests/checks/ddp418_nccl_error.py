"""NCCL's own words, decoded; a peer's end is not one of its errors."""

from ddpdoctor.evidence.nccl import NcclLog, NcclTries, NcclTry
from ddpdoctor.model import Severity
from tests.checks import Sick, job
from tests.rank_ends import FINE, LOST_PEER, ended, raised

SYSTEM = "NCCL error in: ProcessGroupNCCL.cpp:1970, unhandled system error\nncclSystemError: System call failed"


def tries(p2p: str, detail: str = "", *warnings: str) -> NcclTries:
    """Four GPUs of one host, where SHM works and NET is what NCCL takes."""
    logs = (NcclLog(rank=0, version="2.27.3+cuda12.9", transports=("P2P",), warnings=warnings),)
    return NcclTries(
        tries=(
            NcclTry(node=1, host="host-1", gpus=4, transport="P2P", outcome=p2p, detail=detail, logs=logs),
            NcclTry(node=1, host="host-1", gpus=4, transport="SHM", outcome="ok"),
        )
    )


def shared_memory(*p2p_takes: str) -> NcclTries:
    """SHM hangs on a host where P2P joins the GPUs, all of them or some."""
    logs = (NcclLog(rank=0, transports=p2p_takes),)
    return NcclTries(
        tries=(
            NcclTry(node=0, host="host-0", gpus=2, transport="P2P", outcome="ok", logs=logs),
            NcclTry(node=0, host="host-0", gpus=2, transport="SHM", outcome="hung", detail="no sum after 30 s"),
        )
    )


SHM_HANGS = "NCCL over SHM hangs between the 2 GPUs of host-0 (no sum after 30 s); it works over P2P"
SICK = (
    Sick(
        evidence=job(shared_memory("P2P")),
        says=SHM_HANGS,
        ranks=(0,),
        severity=Severity.WARN,
        hosts=("host-0",),
        measured={"transport": "SHM", "seconds": 0.0},
    ),
    Sick(
        evidence=job(shared_memory("NET", "P2P")),
        says=SHM_HANGS,
        ranks=(0,),
        severity=Severity.FAIL,
        hosts=("host-0",),
        measured={"transport": "SHM", "seconds": 0.0},
    ),
    Sick(
        evidence=job(tries("hung", "no sum after 30 s")),
        says="NCCL over P2P hangs between the 4 GPUs of host-1 (no sum after 30 s); it works over SHM",
        ranks=(1,),
        hosts=("host-1",),
        measured={"transport": "P2P", "seconds": 0.0},
    ),
    Sick(
        evidence=job(tries("failed", "rank 2 failed during the sum over P2P", "Call to ibv_create_qp failed")),
        says="NCCL over P2P fails between the 4 GPUs of host-1 (rank 2 failed during the sum over P2P); it works over SHM",
        ranks=(1,),
        hosts=("host-1",),
        measured={"transport": "P2P", "seconds": 0.0},
    ),
    Sick(
        evidence=ended(
            LOST_PEER,
            raised(f"{SYSTEM}\nLast error:\nCall to ibv_modify_qp failed with error X errno 22"),
        ),
        says="InfiniBand could not connect two NICs on rank 1: ibv_modify_qp failed",
        ranks=(1,),
        where=("rank 1 /home/me/job/train.py:48 train",),
    ),
    Sick(
        evidence=ended(LOST_PEER, raised(SYSTEM, "DistBackendError")),
        says="a system call inside NCCL failed on rank 1 (system error): a socket, shared memory, or a device file",
        ranks=(1,),
        where=("rank 1 /home/me/job/train.py:48 train",),
    ),
    Sick(
        evidence=ended(
            raised(SYSTEM, "DistBackendError", tail=("node1:77 [0] NCCL WARN Bootstrap : no socket interface found",))
        ),
        says="NCCL found no network interface on rank 0",
        ranks=(0,),
        where=("rank 0 /home/me/job/train.py:48 train",),
    ),
)
HEALTHY = (ended(FINE, FINE), job(tries("ok")), job(tries("not-taken", "NCCL took NET")))
