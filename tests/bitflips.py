"""Bits flipped at random in small jobs: each must be found at the next audited step, with its rank, and not be called code.

    python -m tests.bitflips --count 100
    python -m tests.bitflips --count 100 --nproc 2 --seed 7
    python -m tests.bitflips --healthy 2000

PyTorch is imported once; every job runs in children that are forked from here.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch._dynamo  # the first step of an optimizer imports it: children share it
import torch.distributed as dist
import torch.testing
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from ddpdoctor.agent.inside.rank_process import Rank
from ddpdoctor.agent.inside.verify_sync_feature import PROBE, follow
from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence
from ddpdoctor.launch.ranks import our_file
from ddpdoctor.model import Report
from ddpdoctor.ranks.training_trace_reader import read_tracks

sys.path.insert(1, str(our_file("reference_train", "faults")))

from bit_flips import flip, flip_after_reduction

STEPS = 12
JOB_SECONDS = 120.0
OPTIMIZERS: dict[str, Callable[[nn.Module], torch.optim.Optimizer]] = {
    "SGD": lambda model: torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9),
    "Adam": lambda model: torch.optim.Adam(model.parameters(), lr=0.01),
    "AdamW foreach": lambda model: torch.optim.AdamW(model.parameters(), lr=0.01, foreach=True),
}
CODES = {
    "memory": {"DDP525"},
    "in the step": {"DDP525"},
    "optimizer": {"DDP525"},
    "state": {"DDP525"},
    "gradient": {"DDP525"},
    "reduction": {"DDP526"},
    "forward": {"DDP527"},
}
"""Where a bit flips, and the findings that are right about it."""


@dataclass(frozen=True, kw_only=True)
class Injection:
    """One flipped bit, or with `where` empty none."""

    where: str = ""
    step: int = -1
    rank: int = 0
    tensor: int = 0
    element: float = 0.0
    """As a share of the tensor's elements."""
    bit: int = 0
    optimizer: str = "SGD"
    clips: bool = False
    every: int = 1

    def place(self, tensor: Tensor) -> tuple[int, int]:
        """The element and the bit."""
        return int(self.element * tensor.numel()), self.bit

    @staticmethod
    def drawn(draw: random.Random, nproc: int, where: str, every: int) -> Injection:
        """Any."""
        return Injection(
            where=where,
            step=draw.randrange(2, STEPS - 4),
            rank=draw.randrange(nproc),
            tensor=draw.randrange(6),
            element=draw.random(),
            bit=draw.randrange(32),
            optimizer=draw.choice(sorted(OPTIMIZERS)),
            clips=draw.random() < 0.3,
            every=every,
        )


def network() -> nn.Module:
    """Six parameters of 8 to 1,536 elements."""
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(24, 64), nn.LayerNorm(64), nn.ReLU(), nn.Linear(64, 8))


def train(rank: int, injection: Injection, steps: int) -> None:
    """The job of one rank, whose process group is there."""
    model = DistributedDataParallel(network())
    optimizer = OPTIMIZERS[injection.optimizer](model)
    parameters = list(model.parameters())
    parameter = parameters[injection.tensor % len(parameters)]
    data = torch.Generator().manual_seed(100 + rank)

    def in_step(*_: object) -> None:
        state = optimizer.state[parameter]
        name = next((name for name in ("momentum_buffer", "exp_avg") if name in state), "")
        target = state[name] if injection.where == "state" else parameter
        flip(target, *injection.place(target))

    def in_forward(_module: nn.Module, _inputs: object, output: Tensor) -> None:
        flip(output, *injection.place(output))

    for step in range(steps):
        sick = step == injection.step and rank == injection.rank
        if sick and injection.where == "memory":
            flip(parameter, *injection.place(parameter))
        if sick and injection.where == "reduction":
            flip_after_reduction(parameter, *injection.place(parameter))
        if sick and injection.where == "forward":
            model.module[injection.tensor % 2 * 3].register_forward_hook(in_forward)
        optimizer.zero_grad()
        x, y = torch.randn(4, 24, generator=data), torch.randint(8, (4,), generator=data)
        loss = nn.functional.cross_entropy(model(x), y)
        if sick and injection.where == "in the step":
            flip(parameter, *injection.place(parameter))
        loss.backward()
        if injection.clips:
            nn.utils.clip_grad_norm_(parameters, 1.0)
        if sick and injection.where == "gradient":
            assert parameter.grad is not None
            flip(parameter.grad, *injection.place(parameter))
        handle = None
        if sick and injection.where in {"optimizer", "state"}:
            handle = optimizer.register_step_post_hook(in_step)
        optimizer.step()
        if handle is not None:
            handle.remove()


def run(injection: Injection, nproc: int, *, steps: int = STEPS, probe_every: int = 0, share: float = 0.0) -> Report:
    """What is said of one job."""
    with tempfile.TemporaryDirectory(prefix="bitflips-") as folder:
        children = [_child(folder, rank, nproc, injection, steps, probe_every, share) for rank in range(nproc)]
        _wait(children, JOB_SECONDS + steps)
        return diagnose(Evidence(ranks=read_tracks(Path(folder)), about_job=True))


def _child(folder: str, rank: int, nproc: int, injection: Injection, steps: int, probe_every: int, share: float) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        torch.set_num_threads(1)
        os.environ[PROBE] = str(probe_every)
        ours = Rank(folder)
        ours.place((), {"rank": rank, "world_size": nproc})
        tracking = follow(ours, 0 if share else injection.every, **({"share": share} if share else {}))
        store = dist.FileStore(f"{folder}/store", nproc)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=nproc)
        train(rank, injection, steps)
        tracking.close()
        dist.barrier()
        code = 0
    finally:
        os._exit(code)


def _wait(children: Sequence[int], seconds: float) -> None:
    """Until all have ended.

    Raises:
        RuntimeError: one failed, or they took longer than `seconds`.
    """
    left, failed, until = set(children), False, time.monotonic() + seconds
    while left:
        for pid in list(left):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                left.discard(pid)
                failed |= status != 0
        if left and (failed or time.monotonic() > until):
            for pid in left:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            raise RuntimeError(f"a rank failed, or did not end within {seconds:.0f} s")
        time.sleep(0.01)
    if failed:
        raise RuntimeError("a rank failed")


def wrongs(injection: Injection, report: Report, nproc: int) -> list[str]:
    """What the report says wrongly about `injection`; nothing where it is right."""
    first = report.findings[0] if report.findings else None
    if first is None:
        return ["nothing found"]
    found = []
    right = CODES[injection.where] | ({"DDP525"} if injection.every > 1 and injection.where != "forward" else set())
    if first.code not in right:
        found.append(f"called {first.code}: {first.message}")
    if nproc > 2 and first.ranks != (injection.rank,):
        found.append(f"blames {first.ranks}")
    if nproc == 2 and injection.rank not in first.ranks:
        found.append(f"blames {first.ranks}")
    step = first.measured.get("step")
    latest = (
        injection.step + injection.every - 1 + (injection.where in {"state", "forward", "optimizer", "in the step"})
    )
    if not isinstance(step, int) or not injection.step <= step <= latest:
        found.append(f"names step {step}")
    return found


def main() -> int:
    """Print a table; the exit code is 0 where all is right."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=0, help="how many bits to flip, one a job")
    parser.add_argument(
        "--healthy", type=int, default=0, metavar="STEPS", help="train a healthy job of this many steps"
    )
    parser.add_argument("--nproc", type=int, default=3)
    parser.add_argument("--every", type=int, default=1, help="audit every K steps")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--where", choices=sorted(CODES), action="append")
    options = parser.parse_args()
    wrong = 0
    if options.healthy:
        report = run(
            Injection(), options.nproc, steps=options.healthy, probe_every=max(2, options.healthy // 50), share=0.2
        )
        said = [f"{one.code} {one.message}" for one in report.findings]
        print(f"healthy, {options.healthy} steps: {said or 'silent'}")
        wrong += bool(said)
    draw = random.Random(options.seed)
    table: dict[str, list[int]] = {}
    for number in range(options.count):
        wheres = options.where or sorted(CODES)
        injection = Injection.drawn(draw, options.nproc, wheres[number % len(wheres)], options.every)
        report = run(injection, options.nproc, probe_every=1 if injection.where == "forward" else 0)
        said = wrongs(injection, report, options.nproc)
        row = table.setdefault(injection.where, [0, 0])
        row[0] += 1
        row[1] += not said
        if said:
            wrong += 1
            print(f"{injection}: {'; '.join(said)}", flush=True)
    for where, (flipped, right) in sorted(table.items()):
        print(f"{where:12} {flipped:4} flipped {right:4} found, rank and step right")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
