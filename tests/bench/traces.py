"""What it costs rank 0 of `verify-sync` under a launcher to receive the files of many ranks.

    python -m tests.bench traces           # 512 and 1,024 ranks; RANKS="4096" for others

Rank 0 is the real `probes/file_gather.py`. The others are threads that speak its protocol (tests/simulated_launch.py), eight a
host, 32 processes at most. Each has 215 KB, of which 43 % is the same on all.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.free_port import free_port
from tests.simulated_launch import SimulatedLaunch, simulated, trace_of

PER_HOST, MOST_PROCESSES = 8, 32
DEADLINE = 300
LIMIT_BYTES = 2 << 30


def main() -> int:
    """Measure and print; 1 where a number of ranks is over a limit, or files are not those that a rank wrote."""
    return max([measured(int(ranks)) for ranks in os.environ.get("RANKS", "512 1024").split()])


def measured(ranks: int) -> int:
    """Print one line for `ranks` ranks; 1 where something is wrong."""
    launch = SimulatedLaunch(
        world_size=ranks,
        per_host=PER_HOST,
        port=free_port(),
        deadline_seconds=DEADLINE,
        as_threads=True,
        hosts_per_process=-(-ranks // PER_HOST // MOST_PROCESSES),
        traces=True,
    )
    with simulated(launch) as others, tempfile.TemporaryDirectory() as name:
        folder, gathered, reported = Path(name, "ranks"), Path(name, "gathered"), Path(name, "reported")
        folder.mkdir()
        command = [
            sys.executable, "probes/file_gather.py", "--rank", "0", "--world-size", str(ranks), "--host", "127.0.0.1",
            "--port", str(launch.port), "--deadline", str(DEADLINE), "--folder", str(folder),
            "--gathered", str(gathered), "--reported", str(reported),
        ]  # fmt: skip
        began = time.perf_counter()
        rank_0 = subprocess.Popen(command, stderr=subprocess.DEVNULL, env={**os.environ, **launch.environ_of(0)})
        assert others.stdin is not None
        assert others.stdout is not None
        others.stdin.write("go\n")
        others.stdin.flush()
        while not gathered.exists() and rank_0.poll() is None:
            time.sleep(0.05)
        took = time.perf_counter() - began
        files = {rank: folder / f"{rank}-1.sync.jsonl" for rank in range(1, ranks)}
        absent = [rank for rank, file in files.items() if not file.exists() or file.read_bytes() != trace_of(rank)]
        reported.touch()
        left = int(others.stdout.readline())
        _, _, used = os.wait4(rank_0.pid, 0)
        rank_0.returncode = 0
        others.stdin.close()
        of_others = float(others.stdout.readline())
    peak, processor = used.ru_maxrss << 10, used.ru_utime + used.ru_stime
    came = f"the files of {len(absent)} ranks did NOT come" if absent else "all files came whole"
    print(
        f"traces: {ranks:5} ranks of {-(-ranks // PER_HOST):4} hosts: {took:.1f} s, processor {processor:.1f} s of "
        f"rank 0 and {of_others:.1f} s of all others; memory {peak >> 20} MB of rank 0 (limit {LIMIT_BYTES >> 20}); {came}; "
        f"{left} processes still there",
        flush=True,
    )
    return int(bool(absent) or peak > LIMIT_BYTES or bool(left))


if __name__ == "__main__":
    sys.exit(main())
