"""`python -m tests.faults --seconds N`: kills, stops and interrupts the processes of each command at random moments.

What must hold: the command ends, none of its processes and no file of it in TMPDIR is left, and an interrupt at its own
process gives exit code 130 and no traceback. Where the command is killed together with the process that removes its directory,
the next command removes it.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from ddpdoctor.launch.process_tree import members

TESTS = Path(__file__).parents[1]
DDPDOCTOR = Path(sys.executable).with_name("ddpdoctor")
MARK = "DDPDOCTOR_FAULT"
END_SECONDS = 60.0  # without any work, for what is left to end by itself: grace periods
MOST_SECONDS = 600.0  # for a job that goes on: `train` needs 10 s of a processor, which take minutes on a busy host
WORK_TICKS = 10  # of a processor between two looks: what only waits takes fewer
STOPPED_SECONDS = 0.5
JOB = "import time\nfor _ in range(12): time.sleep(0.1)\n"
OURS = re.compile(r'File "[^"]*/ddpdoctor/(?!agent/)')  # an interrupt of a job gives a traceback of the job's own
COMMANDS: Sequence[tuple[str, ...]] = (
    ("diagnose", str(TESTS / "data/recorder")),
    ("lint", str(TESTS / "cli/twins")),
    ("env",),
    ("port",),
    ("hang",),
    ("watch", "--", sys.executable, "-c", JOB),
    ("watch", "--kill-on-hang", "--", sys.executable, "-c", JOB),
    ("allreduce-bench", "--nproc", "2", "--sizes", "1K", "--time-budget", "1"),
    ("verify-sync", "--nproc", "2"),
    ("train", "--nproc", "2", "--epochs", "1", "--max-steps", "5"),
)
# which begins more than a minute later
NEXT_COMMAND = """
from ddpdoctor.launch import private_directory
private_directory.LOCKED_SECONDS = 0.0
with private_directory.private_directory():
    pass
"""
BELOW = "a process below it"
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL, signal.SIGKILL, signal.SIGSTOP, signal.SIGHUP)


def fault(draw: random.Random, number: int) -> list[str]:
    """One command with one or two signals at random moments; what did not hold."""
    arguments = draw.choice(COMMANDS)
    folder = Path(tempfile.mkdtemp(prefix="ddpdoctor-faults-"))
    mark = f"{MARK}={os.getpid()}-{number}"
    name, _, value = mark.partition("=")
    with (folder / "output").open("w+b") as output:
        (folder / "tmp").mkdir()
        process = subprocess.Popen(
            [DDPDOCTOR, *arguments],
            env={**os.environ, "TMPDIR": str(folder / "tmp"), name: value},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        sent = [_strike(draw, process, mark) for _ in range(draw.choice((1, 1, 2)))]
        wrong = _after(process, mark)
        output.seek(0)
        shown = output.read().decode(errors="replace")
    said = [(who, number.name) for who, number in sent if number]
    if said == [("ddpdoctor", "SIGINT")] and process.returncode == 130 and "Traceback" in shown and OURS.search(shown):
        wrong.append("a traceback after an interrupt")
    if said == [(who, "SIGKILL") for who, _ in said] and {who for who, _ in said} == {"ddpdoctor", BELOW}:
        subprocess.run(
            [sys.executable, "-c", NEXT_COMMAND], env={**os.environ, "TMPDIR": str(folder / "tmp")}, check=True
        )
    left = [path.name for path in (folder / "tmp").iterdir()]
    if left:
        wrong.append(f"left in TMPDIR: {left[:3]}")
    shutil.rmtree(folder, ignore_errors=True)
    return [f"{' '.join(arguments)[:60]}, {said}, code {process.returncode}: {each}" for each in wrong]


def _strike(draw: random.Random, process: subprocess.Popen[bytes], mark: str) -> tuple[str, signal.Signals | None]:
    """Wait a while, and send a signal to one of the processes."""
    time.sleep(draw.random() ** 2 * 4)
    alive = [pid for pid in members(process.pid, mark) if pid != os.getpid()]
    if process.poll() is not None or not alive:
        return "nobody", None
    pid, number = draw.choice([process.pid, *alive]), draw.choice(SIGNALS)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
        if number is signal.SIGSTOP:
            time.sleep(STOPPED_SECONDS)
            os.kill(pid, signal.SIGCONT)
    return "ddpdoctor" if pid == process.pid else BELOW, number


def _after(process: subprocess.Popen[bytes], mark: str) -> list[str]:
    """Wait for the end of all; what did not end is named and killed."""
    deadline = (start := time.monotonic()) + END_SECONDS
    worked = 0
    while time.monotonic() < min(deadline, start + MOST_SECONDS):
        alive = members(process.pid, mark)
        if process.poll() is not None and not alive:
            return []
        if (ticks := sum(map(_ticks, alive))) > worked + WORK_TICKS or ticks < worked:
            worked, deadline = ticks, time.monotonic() + END_SECONDS
        time.sleep(0.1)
    left = members(process.pid, mark)
    lines = [
        Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:90] for pid in left
    ]
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()
    return [f"left behind: {line}" for line in lines]


def _ticks(pid: int) -> int:
    """The time of a processor that a process has taken; 0 for one that has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return 0
    return int(fields[11]) + int(fields[12]) if len(fields) > 12 else 0


def main(arguments: list[str]) -> int:
    """Make faults until the time is up; returns 1 where something did not hold."""
    options = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    options.add_argument("--seconds", type=float, default=60.0)
    options.add_argument("--seed", type=int, default=None, help="a new one unless given; it is printed")
    given = options.parse_args(arguments)
    seed = given.seed if given.seed is not None else int.from_bytes(os.urandom(4), "big")
    print(f"seed {seed}", flush=True)
    counts: Counter[str] = Counter()
    deadline = time.monotonic() + given.seconds
    while time.monotonic() < deadline:
        wrong = fault(random.Random(f"{seed} {counts['faults']}"), counts["faults"])
        counts["faults"] += 1
        counts["wrong"] += len(wrong)
        for each in wrong:
            print(each, flush=True)
    print(f"{counts['faults']} faults, {counts['wrong']} did not hold")
    return 1 if counts["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
