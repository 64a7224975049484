"""What `diagnose` costs on one large log of 64 ranks whose lines are interleaved.

    python -m tests.bench.logs [MEGABYTES] [--hostile]

Writes a log of steps (default 256 MB) in which one rank fails at the end, and prints the time that
`diagnose` takes, by the clock and on a processor, and its peak memory.
With --hostile, logs that are hard to read as well: one line of the whole size, 100,000 tracebacks, random bytes, lines that
nearly all read like failures.
"""

from __future__ import annotations

import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

RANKS = 64
FAILURE = (
    "[rank17]: Traceback (most recent call last):\n"
    '[rank17]:   File "/home/u/train.py", line 210, in <module>\n'
    "[rank17]:     main()\n"
    "[rank17]: ValueError: bad shard 7\n"
)


def write_steps(file: Path, size: int) -> None:
    """Progress of 64 ranks in turn, and the end of rank 17."""
    lines = [
        f"[rank{rank}]: 2024-05-01 11:11:{step % 60:02d},{rank:03d} | INFO | step {step} loss {2.5 - step / 900:.5f} lr 1.0e-4 "
        f"grad_norm {random.random():.4f} tokens/s {random.randint(10_000, 90_000)} mem 61.2GB\n"
        for step in range(200)
        for rank in range(RANKS)
    ]
    block = "".join(lines).encode()
    with file.open("wb") as stream:
        while stream.tell() < size:
            stream.write(block)
        stream.write(FAILURE.encode())


def write_one_line(file: Path, size: int) -> None:
    """A single line without an end."""
    file.write_bytes(b"x" * size + b" RuntimeError: CUDA error: out of memory")


def write_tracebacks(file: Path, _size: int) -> None:
    """100,000 tracebacks of 64 ranks."""
    one = FAILURE.replace("rank17", "rank{0}")
    with file.open("w") as stream:
        for number in range(100_000):
            stream.write(one.format(number % RANKS))


def write_bytes(file: Path, size: int) -> None:
    """Random bytes, and steps of a training among them."""
    noise = random.Random(7)
    with file.open("wb") as stream:
        stream.write(b"step 10 loss 2.31\n")
        while stream.tell() < size:
            stream.write(noise.randbytes(1 << 20))


def write_suspects(file: Path, size: int) -> None:
    """Lines that nearly all read like failures, each with hexadecimal numbers of its own."""
    noise = random.Random(7)
    with file.open("w") as stream:
        while stream.tell() < size:
            for number in range(10_000):
                rank, hexadecimal = noise.randrange(RANKS), f"{noise.getrandbits(64):x}"
                stream.write(
                    f"[rank{rank}]: WARNING failed to fetch shard {hexadecimal}, connection {number} is tried again\n"
                )
                stream.write(f"[rank{rank}]: step {number} loss {noise.random():.5f} timeout={number} exit=0\n")
        stream.write(FAILURE)


def _processor_seconds() -> float:
    """The time that all children so far spent on a processor."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def measure(name: str, write: Callable[[Path, int], None], size: int) -> None:
    """Print one line for one log."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "job.log"
        write(file, size)
        megabytes = file.stat().st_size / 1e6
        command = [sys.executable, "-m", "ddpdoctor", "diagnose", str(file)]
        began, used = time.perf_counter(), _processor_seconds()
        ended = subprocess.run(command, capture_output=True, text=True, timeout=3600, check=False)
        seconds, busy = time.perf_counter() - began, _processor_seconds() - used
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        said = (ended.stdout or ended.stderr).partition("\n")[0][:80]
        print(
            f"{name:12} {megabytes:6.0f} MB {seconds:6.1f} s, on a processor {busy:6.1f} s ({megabytes / busy:5.1f} MB/s), "
            f"peak {peak:4.0f} MB, exit {ended.returncode}: {said}"
        )


def main() -> None:
    """The large log, and the hard ones where they are asked for."""
    numbers = [word for word in sys.argv[1:] if word.isdigit()]
    size = int(numbers[0] if numbers else 256) * 1_000_000
    measure("steps", write_steps, size)
    if "--hostile" in sys.argv:
        measure("one line", write_one_line, size)
        measure("tracebacks", write_tracebacks, size)
        measure("bytes", write_bytes, size)
        measure("suspects", write_suspects, size)


if __name__ == "__main__":
    main()
