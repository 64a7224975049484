"""What the front door costs: `ddpdoctor --help` over the import of its two libraries, `env` over `import torch`, and the agent.

    python -m tests.bench startup

`--help` may take at most three times `import typer, rich`; `env` at most one second more than `import torch`. Both
sides of a pair take turns; the best of each counts, since everything else on the machine only ever adds. The agent's start is
the processor time of its imports and hooks in a rank that has PyTorch, with compiled bytecode.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

from ddpdoctor.agent import ON_PATH

HELP_RATIO = 3.0
ENV_SECONDS = 1.0
AGENT_SECONDS = 0.03
AGENT_TURNS = int(os.environ.get("TURNS", "15"))
AGENTS = ("watch", "verify_sync", "watch,verify_sync")
DDPDOCTOR = (sys.executable, "-m", "ddpdoctor")
RANK = """
import os, sys, tempfile, time
from importlib.util import module_from_spec, spec_from_file_location
import torch.nn.parallel
import torch.distributed.distributed_c10d as c10d

inside, names = sys.argv[1:]
spent = 0.0


def timed(function):
    def measured(*args):
        global spent
        began = time.thread_time()
        result = function(*args)
        spent += time.thread_time() - began
        return result
    return measured


with tempfile.TemporaryDirectory() as folder:
    os.environ.update(DDPDOCTOR_AGENT=names, DDPDOCTOR_AGENT_DIR=folder)
    spec = spec_from_file_location("_ddpdoctor_inside", f"{inside}/__init__.py", submodule_search_locations=[inside])
    agent = sys.modules[spec.name] = module_from_spec(spec)
    timed(spec.loader.exec_module)(agent)
    timed(agent.start)()  # torch.distributed is there: the hooks, too
    agent._tell = timed(agent._tell)
    c10d.init_process_group("gloo", init_method=f"file://{folder}/store", rank=0, world_size=1)
    assert not [name for name in os.listdir(folder) if name.endswith("gave-up")]
    print(spent, flush=True)
    os._exit(0)
"""


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
    agents = {names: agent_seconds(names) for names in AGENTS}
    for names, seconds in agents.items():
        print(f"start of the agent in a rank, {names}: {seconds:.4f} s (limit {AGENT_SECONDS:g} s)")
    return int(ours > HELP_RATIO * bare or env > torch + ENV_SECONDS or max(agents.values()) > AGENT_SECONDS)


def agent_seconds(names: str) -> float:
    """The least processor seconds that the start of these features took."""
    environment = unlaunched()
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = (sys.executable, "-c", RANK, str(ON_PATH.with_name("inside")), names)
    turns = [
        subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        for _ in range(AGENT_TURNS + 1)
    ]
    return min(float(turn.stdout) for turn in turns[1:])


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
