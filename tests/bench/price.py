"""What being watched and audited costs: the same job alone and under each kind of agent, in short turns in one program.

    python -m tests.bench price
    JOBS=reference WAYS="verify-sync --every 1" JOB_SECONDS=20 python -m tests.bench price

The first takes nine minutes: three jobs of JOB_SECONDS each. JOBS and WAYS choose some of them.

Two ranks train a copy of the model for each way, with the same seed and data. They take turns on the machine, so that what
else it does meets all of them; the processor time of the ranks is compared, and the time on the clock beside it. The weights
must be the same bit by bit in the end.

Two copies differ by where they lie in memory, without any agent: by 0 to 2 % on a thousand small tensors. So each copy has as
many turns without its agent as with it, one beside the other, and these are compared. `watch` is the median over the pairs of
turns. What audits now and then is the sum of all its turns over the sum of those without, because a median would not see its
audits. `every 1` leaves hooks on the parameters between steps, and is compared with the copy that has no agent. That copy has
turns of two kinds, too, which do not differ: it is the control. Differences up to that of the control are noise.

Where the processor counts instructions, those of rank 0 are printed, too, over those of the copy that has no agent. What else
the machine does hardly changes them, and they show what a copy still pays for its agent in the turns without it.

The rank alone is measured: the watcher is a process of its own.
"""

from __future__ import annotations

import hashlib
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - everybody's name for it
from torch.nn.parallel import DistributedDataParallel

from ddpdoctor.agent.inside.verify_sync_feature import EVERY
from ddpdoctor.workflows.watch.replica_audit import audit_environment
from tests.agents_in_turn import Agent, installed, without_hooks
from tests.processor_counters import counters

JOBS = os.environ.get("JOBS", "reference,transformer,small").split(",")
SECONDS = float(os.environ.get("JOB_SECONDS", "160"))  # for each job, over all ways
LEAST_TURNS = 4  # of each way, however few seconds there are
TURN_SECONDS = 0.25
WARM_UP = 12  # steps of each way
RESULTS = "DDPDOCTOR_RESULTS"
_COUNTED = counters()
ALONE = "alone"
APART = " without"  # after the name of a way: its copy, in the turns in which its agent is not at work


@dataclass(frozen=True)
class Way:
    """A kind of agent."""

    features: str
    environ: Mapping[str, str]
    limit: float
    """Times as long as alone that the job may take."""
    summed: bool = False
    """Whether it audits now and then."""
    beside: str = ALONE
    """Whose turns it is compared with; its own copy's without the agent where this is empty."""


WAYS = {
    "watch": Way("watch", {}, 1.005, beside=""),
    "verify-sync": Way("verify_sync", {EVERY: "0"}, 1.015, summed=True, beside=""),
    "watch --verify-sync": Way("watch,verify_sync", audit_environment(0), 1.02, summed=True, beside=""),
    "verify-sync --every 1": Way("verify_sync", {EVERY: "1"}, 1.20),
}


def reference() -> tuple[nn.Module, Callable[[int], Iterator[tuple[Tensor, Tensor]]]]:
    """The reference job: its network, its digits, its batches of 32 a rank."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "reference_train"))
    from torch.utils.data import BatchSampler, DataLoader, DistributedSampler
    from train import DIGITS, DigitNet, load, pixels  # type: ignore[import-not-found]

    def batches(seed: int) -> Iterator[tuple[Tensor, Tensor]]:
        data = load(DIGITS, "train")
        sampler: DistributedSampler[Any] = DistributedSampler(data, seed=seed)
        loader: DataLoader[Any] = DataLoader(data, sampler=BatchSampler(sampler, 32, drop_last=True), batch_size=None)
        epoch = 0
        while True:
            sampler.set_epoch(epoch)
            for images, labels in loader:
                yield pixels(images), labels
            epoch += 1

    return DigitNet(), batches


class Transformer(nn.Module):
    """Twelve layers of a width of 64 over a vocabulary of 256: 150 parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(256, 64), nn.Embedding(32, 64)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(64, 4, 256, dropout=0.0, batch_first=True) for _ in range(12)
        )
        self.norm, self.scores = nn.LayerNorm(64), nn.Linear(64, 256)

    def forward(self, tokens: Tensor) -> Tensor:
        """Scores of shape (batch, vocabulary, length)."""
        x = self.token(tokens) + self.place.weight[: tokens.shape[1]]
        for layer in self.layers:
            x = layer(x)
        scores: Tensor = self.scores(self.norm(x))
        return scores.transpose(1, 2)


class Small(nn.Module):
    """500 linear layers of a width of 24 beside what they are given: 1,000 parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(24, 24) for _ in range(500))

    def forward(self, x: Tensor) -> Tensor:
        """The shape of `x`."""
        for layer in self.layers:
            x = x + layer(x).tanh() * 0.05
        return x


def transformer() -> tuple[nn.Module, Callable[[int], Iterator[tuple[Tensor, Tensor]]]]:
    """Eight sequences of 32 tokens a step."""

    def batches(seed: int) -> Iterator[tuple[Tensor, Tensor]]:
        generator = torch.Generator().manual_seed(seed + dist.get_rank())
        while True:
            tokens = torch.randint(0, 256, (8, 33), generator=generator)
            yield tokens[:, :-1], tokens[:, 1:]

    return Transformer(), batches


def small() -> tuple[nn.Module, Callable[[int], Iterator[tuple[Tensor, Tensor]]]]:
    """Sixteen samples a step."""

    def batches(seed: int) -> Iterator[tuple[Tensor, Tensor]]:
        generator = torch.Generator().manual_seed(seed + dist.get_rank())
        while True:
            yield torch.randn(16, 24, generator=generator), torch.randint(0, 24, (16,), generator=generator)

    return Small(), batches


def training(job: str) -> Callable[[], None]:
    """A function that makes one step of a fresh copy of the job; `model` is its model."""
    torch.manual_seed(1)
    module, batches = {"reference": reference, "transformer": transformer, "small": small}[job]()
    assert job != "transformer" or len([*module.parameters()]) == 150
    model = DistributedDataParallel(module, gradient_as_bucket_view=True)
    if job == "reference":
        optimizer: Any = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, nesterov=True, weight_decay=5e-4)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    data = batches(7)

    def step() -> None:
        inputs, labels = next(data)
        optimizer.zero_grad()
        F.cross_entropy(model(inputs), labels).backward()
        optimizer.step()

    step.model = module  # type: ignore[attr-defined]
    return step


def rank_main() -> None:
    """One rank: all ways of one job in turns; rank 0 writes down the times of each turn."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, folder = dist.get_rank(), Path(os.environ[RESULTS]).parent
    asked = os.environ.get("WAYS", "")
    ways = {name: way for name, way in WAYS.items() if not asked or name in asked.split(",")}
    job, seconds = sys.argv[1], float(sys.argv[2])
    agents: dict[str, Agent] = {ALONE: Agent(ALONE)}
    for number, (name, way) in enumerate(ways.items()):
        agents[name] = installed(f"{number}", way.features, folder / f"agent{number}-{rank}", way.environ)
    steps: dict[str, Callable[[], None]] = {}
    for name, agent in agents.items():
        with agent.at_work():
            steps[name] = training(job)
            for _ in range(WARM_UP):
                steps[name]()
    began = time.perf_counter()
    idle = Agent(ALONE)
    count = _agreed(max(1, round(TURN_SECONDS / _one_turn(idle, steps[ALONE], 10).clock * 10)))
    for name in [name for name in agents if name != ALONE]:  # which has made ten steps more
        with agents[name].at_work():
            for _ in range(10):
                steps[name]()
    taken: dict[str, list[Turn]] = {kind: [] for name in agents for kind in (name, name + APART)}
    order = list(agents)
    while len(taken[ALONE]) < LEAST_TURNS or _agreed(time.perf_counter() - began < seconds):
        order = [*order[1:], order[0]]
        for name in order:
            kinds = [name, name + APART]
            for kind in kinds if len(taken[ALONE]) % 2 else reversed(kinds):
                dist.barrier()
                if kind == name:
                    taken[kind].append(_one_turn(agents[name], steps[name], count))
                else:
                    with without_hooks(steps[name].model):  # type: ignore[attr-defined]
                        taken[kind].append(_one_turn(idle, steps[name], count))
    digests = {name: _digest(step.model) for name, step in steps.items()}  # type: ignore[attr-defined]
    times = torch.tensor([taken[kind] for kind in taken], dtype=torch.float64)  # kind, turn, the fields of a turn
    processor, clock = times[..., 1].clone(), times[..., 0].clone()
    dist.all_reduce(processor)
    dist.all_reduce(clock, dist.ReduceOp.MAX)
    everyone: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, digests)
    if rank == 0:
        row = {
            "job": job, "steps": count, "clock": dict(zip(taken, clock.tolist(), strict=True)),
            "processor": dict(zip(taken, processor.tolist(), strict=True)),
            "instructions": dict(zip(taken, times[..., 2].tolist(), strict=True)),
            "same": len({digest for one in everyone for digest in one.values()}) == 1,
        }  # fmt: skip
        with Path(os.environ[RESULTS]).open("a") as file:
            file.write(json.dumps(row) + "\n")
    if (notes := [*folder.glob("agent*/*gave-up")]) and rank == 0:
        print("gave up:", *(note.read_text() for note in notes), file=sys.stderr)
    dist.barrier()
    dist.destroy_process_group()


class Turn(NamedTuple):
    """What the steps of one turn took."""

    clock: float
    """Seconds on the clock."""
    processor: float
    """Seconds of this process."""
    instructions: float
    """Instructions of this thread outside the kernel; 0 where the processor does not tell."""


def _agreed(value: float) -> int:
    """Rank 0's value."""
    shared = torch.tensor([float(value)], dtype=torch.float64)
    dist.broadcast(shared, 0)
    return int(shared)


def _one_turn(agent: Agent, step: Callable[[], None], count: int) -> Turn:
    """What `count` steps take."""
    with agent.at_work(), _COUNTED or nullcontext():
        clock, processor = time.perf_counter(), time.process_time()
        for _ in range(count):
            step()
        took = time.perf_counter() - clock, time.process_time() - processor
    return Turn(*took, _COUNTED.read().instructions if _COUNTED else 0)


def _digest(model: nn.Module) -> str:
    digest = hashlib.sha256()
    for tensor in model.state_dict().values():
        digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()


def ratio(taken: Mapping[str, Sequence[float]], name: str, beside: str, *, summed: bool) -> float:
    """How many times as much the turns of `name` took as those of `beside`."""
    mine, others = taken[name], taken[beside]
    if summed:
        return sum(mine) / sum(others)
    return statistics.median(one / other for one, other in zip(mine, others, strict=True))


def main() -> int:
    """Measure all jobs and print a table; 1 where a limit is missed or the weights differ."""
    from ddpdoctor.launch.ranks import run_ranks

    missed = 0
    for job in JOBS:
        ran = run_ranks(
            Path(__file__), arguments=[job, str(SECONDS)], nproc=2, deadline_seconds=4 * SECONDS + 120,
            env={"PYTHONPATH": str(Path.cwd()), "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        if ran.ended.code:
            sys.exit(ran.ended.stderr)
        [row] = ran.results
        step_ms = 1000 * statistics.median(row["processor"][ALONE]) / row["steps"] / 2
        print(f"{job}: {len(row['clock'][ALONE])} turns of {row['steps']} steps, {step_ms:.2f} ms of processor a step")
        again = [ratio(row["processor"], ALONE, ALONE + APART, summed=summed) for summed in (False, True)]
        print(f"{job:<12} {'control':<22} {again[0]:.4f} as a median over the turns, {again[1]:.4f} as a sum")
        for name, way in WAYS.items():
            if name not in row["clock"]:
                continue
            beside = way.beside or name + APART
            processor = ratio(row["processor"], name, beside, summed=way.summed)
            clock = ratio(row["clock"], name, beside, summed=way.summed)
            off = processor > way.limit
            missed |= off
            print(
                f"{job:<12} {name:<22} {processor:.4f} times the processor time of the job alone, {clock:.4f} on the clock "
                f"(limit {way.limit:g}){'  MISSED' if off else ''}", flush=True
            )  # fmt: skip
            if any(row["instructions"][ALONE]):
                most, least = (
                    ratio(row["instructions"], kind, ALONE, summed=way.summed) for kind in (name, name + APART)
                )
                print(
                    f"{'':<12} {'':<22} {most:.4f} times its instructions; {least:.4f} in the turns without the agent"
                )
        missed |= not row["same"]
        print(f"{job:<12} weights {'identical' if row['same'] else 'DIFFER'}", flush=True)
    return int(missed)


if __name__ == "__main__":
    rank_main()
