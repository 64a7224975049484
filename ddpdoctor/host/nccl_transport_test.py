"""One sum over all GPUs of this host for each transport of NCCL, that transport forced, in processes with a deadline."""

from __future__ import annotations

import json
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from ddpdoctor.evidence.nccl import NcclLog, NcclOutcome, NcclTransport, NcclTry
from ddpdoctor.launch.guarded_process import ProgramEnd, run
from ddpdoctor.launch.launch_failure import why_ranks_failed
from ddpdoctor.launch.net_process import free_port
from ddpdoctor.launch.private_directory import PrivateDirectory, private_directory
from ddpdoctor.launch.ranks import local_launcher, our_file
from ddpdoctor.logs.nccl_log import failed_diagnostics, read_log
from ddpdoctor.ranks import nccl_ras

TRY_SECONDS = 30.0  # imports torch on every rank, and a group; a transport that works needs seconds
LEAST_SECONDS = 12.0
COUNT_SECONDS = 30.0
MOST_LOG_BYTES = 4 << 20

# each leaves NCCL one way between GPUs of a host, and the network where it would not take that one: P2P is not forced beyond the
# distance at which NCCL takes it by itself (NCCL_P2P_LEVEL), since no job goes there
FORCED: Mapping[NcclTransport, Mapping[str, str]] = {
    "P2P": {"NCCL_P2P_DISABLE": "0", "NCCL_SHM_DISABLE": "1", "NCCL_RUN_DIAGNOSTICS": "1"},
    "SHM": {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "0"},
    "NET": {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"},
}


def gpus_for_nccl(devices: Path = Path("/dev")) -> tuple[int, str]:
    """How many GPUs this host's torch sees, and why NCCL cannot be tried where that is nothing to try."""
    if not any(devices.glob("nvidia[0-9]*")):
        return 0, "no GPU"
    counted = run([sys.executable, str(our_file("probes", "count_gpus.py"))], deadline_seconds=COUNT_SECONDS)
    if counted.code != 0 or counted.timed_out:
        return 0, f"torch could not count the GPUs within {COUNT_SECONDS:g} s"
    gpus = int(counted.stdout)
    if gpus < 0:
        return 0, "torch has no NCCL"
    return gpus, "" if gpus > 1 else f"{gpus} GPU: no pair of GPUs to test on this host"


def on_every_gpu(gpus: int, logs: str) -> list[str]:
    """The command that starts the program on each GPU of this host, whatever launcher started us."""
    return [*local_launcher(gpus, logs), str(our_file("probes", "nccl_sum.py"))]


def try_transports(
    node: int, gpus: int, *, until: float, command: Callable[[int, str], Sequence[str]] = on_every_gpu
) -> Iterator[NcclTry]:
    """Each transport in turn, as long as there is time until `until` (of `time.monotonic`)."""
    for number, transport in enumerate(FORCED):
        seconds = min(TRY_SECONDS, (until - time.monotonic()) / (len(FORCED) - number))
        if seconds < LEAST_SECONDS:
            return
        with private_directory() as folder:
            yield _try(node, gpus, transport, command(gpus, str(folder.path)), folder, seconds)


def _try(
    node: int, gpus: int, transport: NcclTransport, command: Sequence[str], folder: PrivateDirectory, seconds: float
) -> NcclTry:
    address = f"localhost:{free_port()}"
    env = {
        **FORCED[transport], "NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET,P2P,SHM", "OMP_NUM_THREADS": "1",
        "NCCL_DEBUG_FILE": f"{folder.path}/nccl.%h.%p", "NCCL_RAS_ADDR": address,
    }  # fmt: skip
    answers: list[str] = []
    start = time.monotonic()

    def asks_ras_before_the_end() -> bool:
        if not answers and time.monotonic() > start + seconds:
            answers.append(nccl_ras.ask(address))
        return bool(answers)

    ended = run(
        command, deadline_seconds=seconds + nccl_ras.SECONDS, env=env, folder=folder, poll=asks_ras_before_the_end
    )
    logs = tuple(read_log(_beginning(file)) for file in sorted(folder.path.glob("nccl.*")))
    failed = failed_diagnostics(ended.stdout)
    outcome, detail = _judge(transport, ended, logs, failed)
    return NcclTry(
        node=node,
        host=socket.gethostname(),
        gpus=gpus,
        transport=transport,
        outcome=outcome,
        detail=detail,
        seconds=round(ended.seconds, 1),
        logs=logs,
        remarks=(
            *(f"NCCL's diagnostics: {words}" for words in failed),
            *(words for answer in answers for words in nccl_ras.complaints(answer, {}, ())),
        ),
    )


def _judge(
    transport: NcclTransport, ended: ProgramEnd, logs: Sequence[NcclLog], failed_diagnostics: Sequence[str]
) -> tuple[NcclOutcome, str]:
    if ended.timed_out:
        return "hung", f"no result within {ended.seconds:.0f} s"
    if ended.code != 0:
        return "failed", why_ranks_failed(ended, f"the sum over {transport}")
    wrong = [line for line in ended.stdout.splitlines() if line.startswith("{") and json.loads(line)["wrong"]]
    if wrong:
        wrong_answer = json.loads(wrong[0])
        return "wrong", f"rank {wrong_answer['rank']} got {wrong_answer['wrong']}"
    if failed_diagnostics:
        return "failed", failed_diagnostics[0]
    taken = sorted({each for log in logs for each in log.transports})
    if transport not in taken:
        return "not-taken", f"NCCL took {' and '.join(taken)}" if taken else "NCCL's log names no channel"
    return "ok", ""


def _beginning(file: Path) -> str:
    with file.open("rb") as log:
        return log.read(MOST_LOG_BYTES).decode(errors="replace")
