"""Why our own ranks ended without a result, in one sentence, from what the launcher and the ranks printed."""

from __future__ import annotations

import re
import signal

from ddpdoctor.launch.guarded_process import ProgramEnd

ROOT_CAUSE = "Root Cause"  # torchrun's table, whose first rank is the one that failed first
_ROOT_RANK = re.compile(r"\brank {0,20}: {0,20}(\d{1,9})")
_ROOT_CODE = re.compile(r"\bexitcode {0,20}: {0,20}(-?\d{1,9})")
_ERROR = re.compile(r"^(?:\[rank\d+\]: )?[\w.]*(?:Error|Exception)\b: .*$", re.MULTILINE)
_PORT_TAKEN = re.compile(r"failed to listen on any local network address\. port: (\d{1,5})\b.{0,400}EADDRINUSE")
_ANSI = re.compile(r"\x1b\[[0-9;]*m")


def why_ranks_failed(ended: ProgramEnd, what: str) -> str:
    """Such as `rank 1 was killed by SIGKILL during the benchmark`; `what` names what they did."""
    stderr = _ANSI.sub("", ended.stderr)
    if taken := _PORT_TAKEN.search(stderr):
        return f"{what} could not start: another program uses port {taken[1]}; `ddpdoctor port {taken[1]}` shows which"
    if ended.timed_out:
        return f"{what} did not finish within {ended.seconds:.0f} s and was ended"
    _, _, table = stderr.partition(ROOT_CAUSE)
    rank, code = _ROOT_RANK.search(table[:1000]), _ROOT_CODE.search(table[:1000])
    root = (rank[1], int(code[1])) if rank is not None and code is not None else None
    if root is not None and root[1] < 0:
        return f"rank {root[0]} was killed by {_signal_name(-root[1])} during {what}"
    errors = _ERROR.findall(stderr)
    reason = f": {re.sub(r'^.rank[0-9]+.: ', '', errors[0])}" if errors else ""
    if root is not None:
        return f"rank {root[0]} failed during {what}{reason or f' with exit code {root[1]}'}"
    if ended.code > 128:
        return f"this rank was killed by {_signal_name(ended.code - 128)} during {what}"
    return f"{what} failed with exit code {ended.code}{reason}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
