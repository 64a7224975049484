"""What every fault starts from: the reference job, made small, so that a fault file shows its sickness and little else.

    torchrun --nproc-per-node 4 reference_train/faults/ddp305_collective_called_by_some.py --culprit 2
    ddpdoctor train --inject DDP305 --culprit 2 --nproc 4

A fault is a loop of its own over a patient; the line that makes the job sick ends with `# sick`:

    with admit() as patient:
        model = patient.wrap(patient.network())
        optimizer = patient.optimizer(model)
        for step, images, labels in patient.batches():
            if patient.sick_at(step):
                dist.barrier()  # sick
            optimizer.zero_grad()
            patient.loss(model, images, labels).backward()
            optimizer.step()
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - everybody's name for it
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DistributedSampler, Sampler, TensorDataset

sys.path.insert(1, str(Path(__file__).parents[1]))

from train import DIGITS, DigitNet, join, load, pixels

SAMPLES = 1024  # of the embedded digits: an epoch of 32 steps on 4 ranks


@dataclass(frozen=True, slots=True, kw_only=True)
class Patient:
    """One rank of the small job."""

    rank: int
    """This process's rank in the job."""
    world_size: int
    """How many ranks the job has."""
    device: torch.device
    """Where this rank's model and batches are."""
    culprit: int
    """The rank that is to be sick."""
    at_step: int
    """The step, counted from 0, at which it falls ill."""
    steps: int
    """How many steps the job has."""
    batch_size: int
    """Samples per rank and step."""
    options: argparse.Namespace
    """The common options and what the fault declared beyond them, by `admit(how=..., seconds=...)`."""

    @property
    def is_culprit(self) -> bool:
        """Whether this rank is the one to be sick."""
        return self.rank == self.culprit

    def sick_at(self, step: int) -> bool:
        """Whether this rank falls ill at this step."""
        return self.is_culprit and step == self.at_step

    def network(self) -> nn.Module:
        """The reference model with the same initial weights on every rank, not wrapped yet."""
        torch.manual_seed(1)
        return DigitNet().to(self.device)

    def wrap(self, network: nn.Module, **settings: Any) -> DistributedDataParallel:  # noqa: ANN401 - DDP's own
        """`network` under DistributedDataParallel; `settings` are the wrapper's own options."""
        on_gpu = self.device.type == "cuda"
        return DistributedDataParallel(network, device_ids=[self.device.index] if on_gpu else None, **settings)

    def optimizer(self, model: nn.Module, *, lr: float = 0.02) -> torch.optim.Optimizer:
        """SGD with momentum over the parameters of `model`."""
        return torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)

    def data(self) -> TensorDataset:
        """The first 1,024 embedded digits: (image of bytes, label)."""
        return TensorDataset(*load(DIGITS, "train")[:SAMPLES])

    def batches(
        self, sampler: Sampler[int] | None = None, *, batch_size: int | None = None
    ) -> Iterator[tuple[int, Tensor, Tensor]]:
        """`steps` times (step, images, labels) on this rank's device, over as many epochs as that takes.

        Without a `sampler` it is a DistributedSampler whose `set_epoch` is called. Rank 0 prints every tenth step.
        """
        data = self.data()
        sampler = sampler if sampler is not None else DistributedSampler(data, seed=1)
        step, epoch, size = 0, 0, batch_size or self.batch_size
        while step < self.steps:
            if isinstance(sampler, DistributedSampler):
                sampler.set_epoch(epoch)
            indices = list(sampler)
            for begin in range(0, len(indices) - size + 1, size):
                images, labels = data[indices[begin : begin + size]]
                if self.rank == 0 and step % 10 == 0:
                    print(f"step {step} of {self.steps}", flush=True)
                yield step, images.to(self.device), labels.to(self.device)
                step += 1
                if step == self.steps:
                    return
            epoch += 1

    def loss(self, model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
        """The mean cross entropy of the model's scores over this rank's batch."""
        return F.cross_entropy(model(pixels(images)), labels)


@contextmanager
def admit(**defaults: Any) -> Iterator[Patient]:  # noqa: ANN401 - strings and numbers of the fault's own
    """This rank of the job, with its process group; the group is destroyed at the end, whatever happens.

    Each of `defaults` becomes an option of the fault, of its default's type: `admit(how="swap")` gives `--how`, found in
    `patient.options.how`.
    """
    options = _parse(defaults)
    device = join(options.backend, timeout=timedelta(seconds=options.timeout))
    try:
        world_size = dist.get_world_size()
        if not 0 <= options.culprit < world_size:
            sys.exit(f"--culprit {options.culprit} is not a rank of {world_size}")
        yield Patient(
            rank=dist.get_rank(),
            world_size=world_size,
            device=device,
            culprit=options.culprit,
            at_step=options.at_step,
            steps=options.steps,
            batch_size=options.batch_size,
            options=options,
        )
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


def _parse(defaults: dict[str, Any]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--culprit", type=int, default=1, metavar="RANK", help="the rank that is sick")
    parser.add_argument("--at-step", type=int, default=5, metavar="STEP", help="the step at which it falls ill")
    parser.add_argument("--steps", type=int, default=40, help="how many steps the job has")
    parser.add_argument("--batch-size", type=int, default=8, help="samples per rank and step")
    parser.add_argument("--timeout", type=float, default=300.0, metavar="SECONDS", help="of the process group")
    parser.add_argument("--backend", choices=("gloo", "nccl"))
    for name, default in defaults.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default)
    return parser.parse_args()
