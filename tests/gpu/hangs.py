"""One planted fault on ranks that share a card: what `watch`, `hang` and `diagnose` say of it, with the dumps that NCCL left.

    python -m tests.gpu.hangs CODE RANKS FOLDER

Leaves in FOLDER the three reports, the cases, the dumps, the logs, and `verdicts.json`. Exit code 1 where a report is wrong.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.gpu.machine import ROOT
from tests.gpu.runner import sharing_of

JOBS = {"DDP319": Path(__file__).parent / "jobs" / "ddp319_device_stopped.py"}
ACCEPTED = {"DDP319": {"DDP319", "DDP314", "DDP423"}}  # what a card shows of it is what these runs are to find out
UNDECIDED = "undecided"
NOBODY = {"DDP314"}
TIED = {"DDP301", "DDP305"}  # of two ranks, no majority tells which is at fault
HOST_STOPS, BY_DUMPS = {"DDP307", "DDP310"}, {"DDP307", "DDP408"}
STALL_SECONDS, TIMEOUT_SECONDS = 15, 40
WATCH_SECONDS, DUMP_SECONDS = 90, 75
CULPRIT = 1
BACKEND = os.environ.get("DDPDOCTOR_TEST_BACKEND", "nccl")  # `gloo`, with the stand-in on PYTHONPATH, needs no card


def main(arguments: Sequence[str]) -> int:
    """Run the job under `watch`, and alone with `hang` and `diagnose`."""
    code, ranks, folder = arguments[0], int(arguments[1]), Path(arguments[2])
    most = sharing_of(folder.parent).ranks
    if most < ranks:
        print(f"not run: {ranks} NCCL ranks cannot share the GPUs of this machine, {most} can")
        return 0
    verdicts = {"watch": _watched(code, ranks, folder), **_alone(code, ranks, folder)}
    (folder / "verdicts.json").write_text(json.dumps(verdicts, indent=1))
    print(json.dumps(verdicts))
    # stacks alone do not show what a rank that spins has called: then `hang` says that it is undecided
    fine = {"watch": {"right"}, "hang": {"right", UNDECIDED}, "diagnose": {"right"}}
    return int(any(verdict not in fine[name] for name, verdict in verdicts.items()))


def wrong(code: str, report: Mapping[str, Any], *, ranks: int, by_dumps: bool = False) -> str:
    """What is wrong with a report; empty where its headline has the code and names the culprit alone.

    Where two ranks made different calls, both may be named. Dumps show only that a stalled host did not issue its call, or left
    no dump.
    """
    found = report.get("findings", [])
    if not found:
        return UNDECIDED if report.get("undecided") else "it found nothing"
    first = found[0]
    named = [[] if code in NOBODY else [CULPRIT], *([[0, CULPRIT]] if code in TIED and ranks == 2 else [])]
    accepted = ACCEPTED.get(code, {code}) | (BY_DUMPS if by_dumps and code in HOST_STOPS else set())
    if first["code"] not in accepted:
        return f"the headline is {first['code']}: {first['message']}"
    if first["ranks"] not in named and code not in ACCEPTED:
        return f"it blames {first['ranks']}: {first['message']}"
    return ""


def _job(code: str, ranks: int) -> list[str]:
    program = JOBS.get(code) or next((ROOT / "reference_train" / "faults").glob(f"{code.lower()}_*.py"))
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    options = ["--backend", BACKEND, "--culprit", str(CULPRIT), "--steps", "400", "--timeout", str(TIMEOUT_SECONDS)]
    return [*launcher, str(program), *options]


def _watched(code: str, ranks: int, folder: Path) -> str:
    report = folder / "watch.json"
    options = ["--stall-after", str(STALL_SECONDS), "--kill-on-hang", "--format", "json", "--output", str(report)]
    command = [sys.executable, "-m", "ddpdoctor", "watch", *options, "--case", str(folder / "watch-case.json"), "--"]
    _run([*command, *_job(code, ranks)], folder / "watch.log", WATCH_SECONDS)
    return wrong(code, _read(report), ranks=ranks) or "right"


def _alone(code: str, ranks: int, folder: Path) -> dict[str, str]:
    dumps = folder / "dumps"
    dumps.mkdir(exist_ok=True)
    for old in dumps.iterdir():
        old.unlink()
    environment = {
        **os.environ,
        "TORCH_FR_BUFFER_SIZE": "2000",
        "TORCH_NCCL_TRACE_BUFFER_SIZE": "2000",
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
        "TORCH_NCCL_ENABLE_TIMING": "1",
        "TORCH_FR_DUMP_TEMP_FILE": str(dumps / "nccl_trace_rank_"),
        "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": str(dumps / "nccl_trace_rank_"),
    }
    with (folder / "alone.log").open("wb") as log:
        process = subprocess.Popen(
            _job(code, ranks), env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            _wait(process, STALL_SECONDS + 10)
            asked = [sys.executable, "-m", "ddpdoctor", "hang", str(process.pid), "--format", "json"]
            saved = ["--output", str(folder / "hang.json"), "--case", str(folder / "hang-case.json")]
            _run([*asked, *saved], folder / "hang.log", 40)
            _wait(process, DUMP_SECONDS)
        finally:
            _end(process)
    judged = [
        sys.executable,
        "-m",
        "ddpdoctor",
        "diagnose",
        "--format",
        "json",
        "--output",
        str(folder / "diagnose.json"),
    ]
    if any(dumps.iterdir()):
        _run([*judged, str(dumps)], folder / "diagnose.log", 60)
    told = {name: _read(folder / f"{name}.json") for name in ("hang", "diagnose")}
    return {
        name: wrong(code, report, ranks=ranks, by_dumps=name == "diagnose") or "right" for name, report in told.items()
    }


def _read(report: Path) -> Mapping[str, Any]:
    try:
        return dict(json.loads(report.read_text()))
    except (OSError, ValueError):
        return {}


def _run(command: Sequence[str], log: Path, seconds: float) -> None:
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            _wait(process, seconds)
        finally:
            _end(process)


def _wait(process: subprocess.Popen[bytes], seconds: float) -> None:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the job and its ranks, which torchrun puts into sessions of their own; a stopped rank needs SIGCONT to end."""
    children = _below(process.pid)
    for number in (signal.SIGCONT, signal.SIGTERM, signal.SIGKILL):
        for pid in (process.pid, *children):
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        if number == signal.SIGTERM:
            _wait(process, 5)
            time.sleep(0.5)
    process.wait()


def _below(pid: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue
        if parent == pid:
            child = int(path.parent.name)
            found += [child, *_below(child)]
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
