"""What `lint` costs: 1,000 training programs of 300 lines or more in at most 10 s on two cores, and no file more than 2 s.

    python -m tests.bench lint

Prints the processor time of `ddpdoctor lint` beside that of parsing the same files with `ast` alone, the time by the
clock, and the slowest of a few files of generated code, where a reader that is worse than linear shows.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.training_programs import GOOD

FILES, LINES = 1000, 300
SECONDS = 10.0
ONE_FILE_SECONDS = 2.0
_HEAD = "import torch.distributed as dist\ndist.init_process_group('nccl')\nrank = dist.get_rank()\n"
_TURNS = "def main(loader):\n  for x in loader:\n"
GENERATED: dict[str, tuple[int, Callable[[int], str]]] = {
    "calls.py": (
        7000,
        lambda many: (
            "model = DistributedDataParallel(net)\n"
            + "".join(f"loss = model(x{i})\nloss.backward()\nopt.step()\n" for i in range(many))
        ),
    ),
    "tests.py": (
        8000,
        lambda many: "def main(x):\n" + "".join(f"  if rank == {i}:\n    x = {i}\n" for i in range(many)),
    ),
    "exits.py": (
        4000,
        lambda many: (
            _TURNS
            + "".join(
                f"    loss = model(x)\n    if loss > {i}:\n      continue\n    loss.backward()\n" for i in range(many)
            )
        ),
    ),
    "again.py": (
        4000,
        lambda many: (
            "def main(x):\n" + "".join(f"  x = dist.all_reduce(x)\n  if x > {i}:\n    x = f(x)\n" for i in range(many))
        ),
    ),
    "keys.py": (
        4000,
        lambda many: (
            "seen = {}\n"
            + "".join(f"seen['{i}'] = rank\nif seen['{i}'] == 0:\n  dist.barrier()\n" for i in range(many))
        ),
    ),
    "loops.py": (
        3000,
        lambda many: (
            "def main(sampler):\n  sampler.set_epoch(0)\n"
            + "".join(f"  for i{i} in range(3):\n    v{i} = f(i{i})\n" for i in range(many))
        ),
    ),
    "given.py": (
        2000,
        lambda many: (
            "".join(f"def f{i}(fn, x):\n  fn(x)\n  f{i + 1}(fn, x)\n" for i in range(many))
            + f"def f{many}(fn, x):\n  fn(x)\ndef train(x):\n  dist.barrier()\nf0(train, 1)\n"
        ),
    ),
    "names.py": (20000, lambda many: "v0 = rank\n" + "".join(f"v{i + 1} = g(v{i})\n" for i in range(many))),
    "saves.py": (
        5000,
        lambda many: (
            "def main(model):\n"
            + "".join(f"  torch.save(model.state_dict(), '{i}')\n  torch.load('{i}')\n" for i in range(many))
        ),
    ),
    "table.py": (40000, lambda many: "D = {" + ", ".join(f"'k{i}': [rank, {i}]" for i in range(many)) + "}\n"),
}  # how many parts, and the program of so many


def generated(name: str, many: int) -> str:
    """A program of generated code with so many equal parts."""
    return _HEAD + GENERATED[name][1](many)


def main() -> int:
    """Measure and print; 1 where a limit is exceeded by the processor time over two cores."""
    with tempfile.TemporaryDirectory() as folder:
        files = _programs(Path(folder))
        before = time.process_time()
        for file in files:
            ast.parse(file.read_text())
        parsing = time.process_time() - before
        clock, processor = _lint(Path(folder))
        print(
            f"lint of {FILES} programs of {LINES} lines: {clock:.1f} s by the clock, {processor:.1f} s of processor time, "
            f"{processor / parsing:.1f} times as much as ast.parse alone (limit {SECONDS:g} s on two cores)"
        )
    slowest = max((_generated(name), name) for name in GENERATED)
    print(
        f"slowest file of generated code: {slowest[1]}, {slowest[0]:.2f} s of processor time (limit {ONE_FILE_SECONDS:g} s)"
    )
    return int(processor / 2 > SECONDS or slowest[0] > ONE_FILE_SECONDS)


def _programs(folder: Path) -> list[Path]:
    """Training programs with other names in each, filled up with functions that train as well."""
    body = GOOD[GOOD.index("def evaluate") : GOOD.index("if __name__")]
    found = []
    for number in range(FILES):
        text, extra = GOOD, 0
        while text.count("\n") < LINES:
            extra += 1
            text += body.replace("def evaluate", f"def evaluate{extra}").replace(
                "def main", f"def train{extra}_{number}"
            )
        file = folder / f"program{number:04}" / "train.py"
        file.parent.mkdir()
        file.write_text(text)
        found.append(file)
    return found


def _lint(*paths: Path) -> tuple[float, float]:
    """Seconds by the clock, and of processor time of the command and its processes."""
    before, start = os.times(), time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "ddpdoctor", "lint", *map(str, paths)], stdout=subprocess.DEVNULL, check=False
    )
    after = os.times()
    return (
        time.perf_counter() - start,
        after.children_user + after.children_system - before.children_user - before.children_system,
    )


def _generated(name: str) -> float:
    """Processor time for one file, without that of an empty one."""
    with tempfile.TemporaryDirectory() as folder:
        empty, full = Path(folder) / "empty.py", Path(folder) / name
        empty.write_text("x = 1\n")
        full.write_text(generated(name, GENERATED[name][0]))
        return _lint(full)[1] - _lint(empty)[1]


if __name__ == "__main__":
    sys.exit(main())
