"""What `diagnose` costs beside unpickling the dumps, and beside `torchfrtrace`.

    python -m tests.bench.diagnose [RANKS ...]

Writes synthetic NCCL dumps (2,000 entries a rank, 12 frames each, in twelve process groups; one rank leaves out its last
call), and prints for each number of ranks the seconds of both, their ratio, the seconds with `--trace`, and the peak memory of
all processes of `diagnose`, in a run of its own. The default is 128 and 512; 2048 needs 1 GB of disk, 4096 two.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

ENTRIES, FRAMES, STACKS = 2_000, 12, 30
GROUPS = 12  # the default group, and eleven of 2, 4, 8, 16, ... members
TIMEOUT_MS = 600_000
LAST_GROUP = (ENTRIES - 1) % GROUPS
START_NS, STEP_NS = 1_795_233_867_118_125_849, 10**7
TAKEN_AT = (
    START_NS + ENTRIES * STEP_NS
) / 1e9 + TIMEOUT_MS / 1000  # the files' times: without them there is no verdict
UNPICKLE = (
    "import pickle, sys, pathlib\nfor file in sorted(pathlib.Path(sys.argv[1]).iterdir()): pickle.load(file.open('rb'))"
)
TORCHFRTRACE_UP_TO = 512  # ranks: beyond, it takes longer than anybody waits


def write_dumps(folder: Path, ranks: int) -> None:
    """One dump per rank, as PyTorch writes them: frames shared between entries, every size a list of its own."""
    stacks = [
        [
            {"name": f"f{depth}", "filename": f"/opt/venv/lib/python3.11/site-packages/m{depth}.py", "line": 9 + number}
            if depth < FRAMES - 3
            else {"name": f"g{depth}", "filename": f"/home/me/job/train{depth}.py", "line": 9 + number}
            for depth in range(FRAMES)
        ]
        for number in range(STACKS)
    ]
    entries = [_entry(number, stacks[number % STACKS]) for number in range(ENTRIES)]
    document = {"version": "2.10", "entries": entries}
    for rank in range(ranks):
        groups = _groups(rank, ranks)
        document["pg_config"] = {
            name: {"name": name, "desc": description, "ranks": str([*members])} for name, description, members in groups
        }
        document["pg_status"] = {
            str(number): {
                "last_enqueued_collective": len(range(number, ENTRIES, GROUPS)),
                "last_completed_collective": len(range(number, ENTRIES, GROUPS)) - (number == LAST_GROUP),
            }
            for number in range(GROUPS)
        }
        for number, entry in enumerate(entries):
            name, description, _ = groups[number % GROUPS]
            entry["process_group"] = (name, description)
            created = START_NS + number * STEP_NS + rank
            entry["time_created_ns"] = created
            if entry["retired"]:
                entry["time_discovered_started_ns"] = created + 2_000_000
                entry["time_discovered_completed_ns"] = created + 3_000_000
        written = {**document, "entries": entries[:-1]} if rank == ranks // 2 else document
        file = folder / f"nccl_trace_rank_{rank}"
        file.write_bytes(pickle.dumps(written, protocol=2))
        os.utime(file, (TAKEN_AT, TAKEN_AT))


def _groups(rank: int, ranks: int) -> list[tuple[str, str, range]]:
    """The name, the description and the members of every group of a rank: neighbours, or ranks at equal distances."""
    found = [("0", "default_pg", range(ranks))]
    for number in range(1, GROUPS):
        size = min(2 ** (1 + number % 6), ranks)
        distance = ranks // size if number % 2 else 1
        first = rank % distance if number % 2 else rank - rank % size
        members = range(first, min(first + size * distance, ranks), distance)
        found.append((str(number * ranks + first + 1), f"GROUP_{number}", members))
    return found


def _entry(number: int, frames: list[dict[str, object]]) -> dict[str, object]:
    last = number == ENTRIES - 1
    return {
        "frames": [*frames],
        "record_id": number,
        "pg_id": number % GROUPS,
        "process_group": ("0", "default_pg"),
        "thread_name": "python",
        "thread_id": "140545539951488",
        "collective_seq_id": number // GROUPS + 1,
        "p2p_seq_id": 0,
        "op_id": number // GROUPS + 1,
        "profiling_name": "nccl:all_reduce",
        "time_created_ns": 0,
        "input_sizes": [[1000 + 37 * (number % STACKS)]],
        "input_dtypes": ["Float"],
        "output_sizes": [[1000 + 37 * (number % STACKS)]],
        "output_dtypes": ["Float"],
        "state": "scheduled" if last else "completed",
        "time_discovered_started_ns": None,
        "time_discovered_completed_ns": None,
        "retired": not last,
        "timeout_ms": TIMEOUT_MS,
        "is_p2p": False,
    }


def seconds(*command: str) -> float:
    """The time that a command takes."""
    began = time.perf_counter()
    subprocess.run(command, capture_output=True, timeout=3600, check=False)
    return time.perf_counter() - began


def peak_bytes(*command: str) -> int:
    """The most memory that a command and its children had at a time; what they share counts once."""
    peak = 0
    with psutil.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as parent:
        while parent.poll() is None:
            peak = max(peak, sum(map(_bytes_of, [parent, *parent.children(recursive=True)])))
            time.sleep(0.02)
    return peak


def _bytes_of(process: psutil.Process) -> int:
    """Its proportional set size: a page that N processes share counts an Nth in each."""
    with contextlib.suppress(psutil.Error):
        return int(process.memory_full_info().pss)
    return 0


def main() -> None:
    """Print one line for each number of ranks."""
    scripts = Path(sys.executable).parent
    for ranks in [int(word) for word in sys.argv[1:] if word.isdigit()] or [128, 512]:
        with tempfile.TemporaryDirectory() as folder:
            write_dumps(Path(folder), ranks)
            alone = min(seconds(sys.executable, "-c", UNPICKLE, folder) for _ in range(2))
            diagnose = (str(scripts / "ddpdoctor"), "diagnose", folder)
            ours = min(seconds(*diagnose) for _ in range(2))
            traced = min(seconds(*diagnose, "--trace", f"{folder}.json") for _ in range(2))
            Path(f"{folder}.json").unlink()
            peak = peak_bytes(*diagnose) >> 20
            line = f"{ranks:5} ranks: unpickling {alone:6.2f} s, diagnose {ours:6.2f} s ({ours / alone:.2f}x), "
            line += f"with --trace {traced:.2f} s ({traced / ours:.2f}x, limit 1.5), peak {peak} MB"
            if ranks <= TORCHFRTRACE_UP_TO:
                theirs = seconds(sys.executable, "-m", "torch.distributed.flight_recorder.fr_trace", folder)
                line += f", torchfrtrace {theirs:.1f} s ({theirs / ours:.1f}x ours)"
            print(line, flush=True)


if __name__ == "__main__":
    main()
