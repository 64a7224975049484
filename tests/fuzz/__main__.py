"""`python -m tests.fuzz --seconds N --seed S`: hostile inputs of every kind, in processes with limits, against the laws.

The laws: an exit code of docs/exit-codes.md other than 4, no traceback, no control character on the terminal, nothing run,
no more time and memory than the size of the input allows. What breaks one is shrunk and kept in tests/fuzz/found/.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.inputs import Input
from tests.fuzz.kinds import KINDS

FOUND = Path(__file__).with_name("found")
CODES = {0, 1, 2, 3}
SECONDS = 60.0  # of a processor, after which an input is given up
SLOW_SECONDS, SLOW_SECONDS_A_BYTE = 5.0, 50e-6  # of a processor: what an input may take
MOST_MEMORY, MEMORY_A_BYTE = (
    400 << 20,
    100,
)  # that an input may take: modules that are imported late, and what a byte becomes
MEMORY = 4 << 30  # of address space: imports take one
MARK = "PWNED"
A_BLOCK = 1 << 20  # of a file: what it holds may not have its place on the disk yet
SHRINK_SECONDS = 30.0

# One process answers many inputs: its imports take a second, an input takes milliseconds.
SERVER = """
import sys
from ddpdoctor import case, cli
from ddpdoctor.catalogue import all_checks
from ddpdoctor.cli import diagnose, explain, lint, verify_sync
import ddpdoctor.workflows.diagnose, ddpdoctor.workflows.lint, ddpdoctor.workflows.explain, ddpdoctor.checkpoints.compare
all_checks()
from tests.fuzz.server import serve
serve()
"""


@dataclass(frozen=True)
class Ended:
    """How a command line ended."""

    code: int
    """Its exit code; -N where signal N ended it."""
    seconds: float
    """Of a processor."""
    memory: int
    """Bytes by which its resident memory rose."""
    shown: str
    """What it wrote to stdout and stderr."""


@dataclass(frozen=True)
class Broken:
    """A law that an input broke."""

    law: str
    """Which one, and how."""
    output: str
    """What was written, the end of it."""


class Server:
    """A process that has imported everything, and answers command lines in forks of itself."""

    def __init__(self, first: str = "pass") -> None:
        """`first` is Python that it runs before anything else, such as a defence that is taken away."""
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"{first}\n{SERVER}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)),
        )

    def run(self, arguments: list[str], folder: Path) -> Broken | None:
        """The first law that this command line breaks in `folder`."""
        ended = self.ended(arguments, folder)
        law = broken_law(ended, folder, size_of(folder))
        return Broken(law, ended.shown[-2000:]) if law else None

    def ended(self, arguments: list[str], folder: Path) -> Ended:
        """How this command line ends in `folder`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([SECONDS, str(folder), *arguments]) + "\n")
        self._process.stdin.flush()
        code, seconds, memory = self._process.stdout.readline().split()
        shown = (folder / ".output").read_bytes().decode("utf-8", "backslashreplace")
        return Ended(int(code), float(seconds), int(memory), shown)

    def close(self) -> None:
        """End it."""
        with self._process:  # which closes its pipes
            self._process.terminate()


def size_of(folder: Path) -> int:
    """The bytes of the files of an input, without the holes of those that are sparse."""
    found = [file.lstat() for file in folder.rglob("*") if file.name != ".output" and not file.is_dir()]
    return sum(min(each.st_size, each.st_blocks * 512 + A_BLOCK) for each in found)


def broken_law(ended: Ended, folder: Path, size: int) -> str:
    """The first law that the end of a command line broke, with an input of `size` bytes in `folder`; empty for none."""
    shown = ended.shown
    if ended.code not in CODES:
        return f"exit code {ended.code} after {ended.seconds:.1f} s"
    if ended.seconds > SLOW_SECONDS + SLOW_SECONDS_A_BYTE * size:
        return f"slow for its size after {ended.seconds:.1f} s"
    if ended.memory > MOST_MEMORY + MEMORY_A_BYTE * size:
        return f"too large for its size after {ended.seconds:.1f} s and {ended.memory >> 20} MB"
    if "Traceback (most recent call last)" in shown.replace("| Traceback", ""):
        lines = [line for line in shown.splitlines() if line.startswith("Traceback")]
        if lines:
            return "a traceback"
    wild = {character for character in shown if not (character in "\n\t" or character.isprintable())}
    if wild:
        return f"control characters: {sorted(wild)[:5]}"
    if (folder / MARK).exists():
        return "something was run"
    return ""


def shrunk(server: Server, found: Input, broken: Broken) -> Input:
    """A smaller input that breaks the same law: halves, then lines or parts of it are left out as long as it does."""
    deadline = time.monotonic() + SHRINK_SECONDS
    size = max(map(len, found.files.values()), default=0) // 2
    while size and time.monotonic() < deadline:
        for name, content in sorted(found.files.items()):
            start = 0
            while start < len(content) and time.monotonic() < deadline:
                less = content[:start] + content[start + size :]
                smaller = Input(found.arguments, {**found.files, name: less})
                again = tried(server, smaller)
                if again is not None and again.law.split(" after ")[0] == broken.law.split(" after ")[0]:
                    found, content = smaller, less
                else:
                    start += size
        size //= 2
    return found


def tried(server: Server, given: Input) -> Broken | None:
    """What the input breaks, in a directory of its own, two levels deep: `..` and `../..` are the fuzzer's own too."""
    with tempfile.TemporaryDirectory(prefix="ddpdoctor-fuzz-") as name:
        folder = Path(name, "a", "b")
        folder.mkdir(parents=True)
        for file, content in given.files.items():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_bytes(content)
        return server.run(list(given.arguments), folder)


def kept(found: Input, broken: Broken, kind: str, seed: int) -> Path:
    """Keep an input as a case of its own, with the command line and what it broke."""
    folder = FOUND / f"{kind.replace(' ', '_')}-{seed}"
    for file, content in found.files.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_bytes(content)
    (folder / "COMMAND").write_text("\n".join([*found.arguments, "", broken.law, broken.output]), errors="replace")
    return folder


def main(arguments: list[str]) -> int:
    """Draw inputs until the time is up; returns 1 where one broke a law."""
    options = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    options.add_argument("--seconds", type=float, default=60.0)
    options.add_argument("--seed", type=int, default=None, help="a new one unless given; it is printed")
    options.add_argument("--only", choices=sorted(KINDS), default=None)
    given = options.parse_args(arguments)
    seed = given.seed if given.seed is not None else int.from_bytes(os.urandom(4), "big")
    print(f"seed {seed}", flush=True)
    tries: Counter[str] = Counter()
    broken: dict[str, list[str]] = {}
    deadline, server = time.monotonic() + given.seconds, Server()
    try:
        while time.monotonic() < deadline:
            kind = given.only or list(KINDS)[sum(tries.values()) % len(KINDS)]
            number = sum(tries.values())
            one: Callable[[random.Random], Input] = KINDS[kind]
            tries[kind] += 1
            drawn = one(random.Random(f"{seed} {number}"))
            law = tried(server, drawn)
            if law is not None and law.law not in broken.setdefault(kind, []):
                broken[kind].append(law.law)
                place = kept(shrunk(server, drawn, law), law, kind, number)
                print(f"{kind} {number}: {law.law}: {place.relative_to(FOUND.parents[1])}", flush=True)
    finally:
        server.close()
    print(f"{sum(tries.values())} inputs ({', '.join(f'{number} {kind}' for kind, number in sorted(tries.items()))})")
    defects = sum(map(len, broken.values()))
    print(f"{defects} defects")
    return 1 if defects else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
