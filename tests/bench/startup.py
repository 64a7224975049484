"""What the front door costs: `ddpdoctor --help` over the import of its two libraries, and `env` over `import torch`.

    python -m tests.bench startup

`--help` may take at most three times `import typer, rich`; `env` at most one second more than `import torch`. Both
sides of a pair take turns; the best of each counts, since everything else on the machine only ever adds.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

HELP_RATIO = 3.0
ENV_SECONDS = 1.0
DDPDOCTOR = (sys.executable, "-m", "ddpdoctor")


def main() -> int:
    """Measure and print; 1 where one of the two is over its limit."""
    ours, bare = best_of(15, (*DDPDOCTOR, "--help"), (sys.executable, "-c", "import typer, rich"))
    print(
        f"ddpdoctor --help over import typer, rich: {ours:.3f} / {bare:.3f} s = {ours / bare:.2f} (limit {HELP_RATIO:g})"
    )
    env, torch = best_of(5, (*DDPDOCTOR, "env"), (sys.executable, "-c", "import torch"))
    print(
        f"ddpdoctor env over import torch: {env:.2f} / {torch:.2f} s = {env / torch:.2f}, "
        f"{env - torch:.2f} s more (limit {ENV_SECONDS:g} s)"
    )
    return int(ours > HELP_RATIO * bare or env > torch + ENV_SECONDS)


def best_of(turns: int, *commands: tuple[str, ...]) -> list[float]:
    """The shortest time of each command in seconds, after one unmeasured run that fills the caches."""
    seconds: list[list[float]] = [[] for _ in commands]
    for turn in range(turns + 1):
        for times, command in zip(seconds, commands, strict=True):
            start = time.perf_counter()
            subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False, env=unlaunched())
            if turn:
                times.append(time.perf_counter() - start)
    return [min(times) for times in seconds]


def unlaunched() -> dict[str, str]:
    """This environment without a launcher's variables."""
    return {name: value for name, value in os.environ.items() if name not in {"RANK", "WORLD_SIZE"}}


if __name__ == "__main__":
    sys.exit(main())
