"""What `ddpdoctor env` costs under a launcher of many ranks: seconds from rank 0's start to its verdict, and its memory.

    python -m tests.bench env            # 256 and 1,024 ranks; RANKS=4096 for others

Rank 0 is the real command. The other ranks are forked from one prepared process (tests/simulated_launch.py), eight a host, and
begin when rank 0's store listens: the hosts of a job import torch while rank 0 does, each on processors of its own. Every rank
has to leave, too. The line also says how long rank 0 took from there; all ranks share the processors of this machine, which in a
job are those of one host.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil

from tests.free_port import free_port
from tests.simulated_launch import SimulatedLaunch, simulated

LIMIT_SECONDS, LIMIT_BYTES = 30.0, 1 << 30
PER_HOST, MOST_PROCESSES = 8, 32
DEADLINE = 300
POLL_SECONDS = 0.05


def main() -> int:
    """Measure and print; 1 where a number of ranks is over a limit."""
    return max([measured(int(ranks)) for ranks in os.environ.get("RANKS", "256 1024").split()])


def measured(ranks: int) -> int:
    """Print one line for `ranks` ranks; 1 where they are over a limit."""
    launch = SimulatedLaunch(
        world_size=ranks,
        per_host=PER_HOST,
        port=free_port(),
        deadline_seconds=DEADLINE,
        few_files=(ranks - PER_HOST,),
        as_threads=True,
        hosts_per_process=-(-ranks // PER_HOST // MOST_PROCESSES),
    )
    free = psutil.virtual_memory().available
    with simulated(launch) as others:
        of_ranks = free - psutil.virtual_memory().available
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-m", "ddpdoctor", "env", "--deadline", str(DEADLINE), "--select", "DDP184"]
        began = time.perf_counter()
        rank_0 = subprocess.Popen(
            command,
            env={**os.environ, **launch.environ_of(0)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        peak = _Peak(rank_0.pid)
        _until_it_listens(rank_0, launch.port)
        listened = time.perf_counter() - began
        assert others.stdin is not None
        others.stdin.write("go\n")
        others.stdin.flush()
        out, err = rank_0.communicate()
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        took = time.perf_counter() - began
        assert others.stdout is not None
        left = int(others.stdout.readline())
        stayed = time.perf_counter() - began - took
        others.stdin.close()
        of_others = float(others.stdout.readline())
    of_rank_0 = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    named = f"on {launch.host_of(ranks - 1)}" in out
    over = took > LIMIT_SECONDS or peak.bytes > LIMIT_BYTES or not named or bool(left)
    print(
        f"env: {ranks:5} ranks of {-(-ranks // PER_HOST):4} hosts: {took:5.1f} s (limit {LIMIT_SECONDS:g}), "
        f"of which {took - listened:.1f} s since its store listens; processor "
        f"{of_rank_0:.1f} s of rank 0 and {of_others:.1f} s of all others; memory {peak.bytes >> 20} MB of rank 0 (limit "
        f"{LIMIT_BYTES >> 20}) and {of_ranks >> 20} MB of all others; the sick host is {'named' if named else 'NOT named'}; "
        f"{left} processes still there after {stayed:.1f} s",
        flush=True,
    )
    if not named:
        print(out[-2000:], err[-2000:], file=sys.stderr)
    return int(over)


def _until_it_listens(process: subprocess.Popen[str], port: int) -> None:
    """Wait until a process of this host listens on the port, or `process` has ended."""
    there = re.compile(
        rf"^ *\d+: \w+:{port:04X} \w+:0000 0A ", re.MULTILINE
    )  # a line of the kernel's table, state LISTEN
    while process.poll() is None:
        if any(there.search(Path(table).read_text(encoding="ascii")) for table in ("/proc/net/tcp", "/proc/net/tcp6")):
            return
        time.sleep(POLL_SECONDS)


class _Peak(threading.Thread):
    """The most memory that a process and its children had together; what they share counts once."""

    def __init__(self, parent: int) -> None:
        super().__init__(daemon=True)
        self.bytes = 0
        self._parent = parent
        self.start()

    def run(self) -> None:
        while tree := _tree(self._parent):
            self.bytes = max(self.bytes, sum(map(_bytes_of, tree)))
            time.sleep(0.3)


def _tree(parent: int) -> list[int]:
    """The process and its descendants, without a look at the thousands of others."""
    found = [parent]
    try:
        for task in Path(f"/proc/{parent}/task").iterdir():
            for child in (task / "children").read_text(encoding="utf-8").split():
                found += _tree(int(child))
    except OSError:  # it has ended
        return []
    return found


def _bytes_of(process: int) -> int:
    with contextlib.suppress(psutil.Error):
        return int(psutil.Process(process).memory_full_info().pss)
    return 0


if __name__ == "__main__":
    sys.exit(main())
