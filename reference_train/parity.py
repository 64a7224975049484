"""The proof: N ranks compute what one process computes over the same global batches.

    torchrun --nproc-per-node 4 reference_train/parity.py

The steps are those of recipe.py (stepping.py, shares.py), in float64, where right and wrong differ by ten orders of magnitude:
a right job is within 1e-15 of one process, the smallest known mistake 1e-3 away. Each comparison is a gate. When the gradients
fail theirs, the gradient that each known mistake would give is computed, and the one that fits is named.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
import torch.distributed as dist
from phases import Phases
from recipe import DTYPES
from recipe_options import MISTAKES, parse
from shares import Share, shares
from stepping import Stepper
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - everybody's name for it
from torch.optim.lr_scheduler import LambdaLR
from train import DIGITS, DigitNet, Progress, digests, join, load, pixels
from wrapping import settle_buckets, wrap

SAMPLES = 1637  # no number of ranks and no batch divides them: every epoch ends with an uneven batch
BATCH, RATE, SEED = 64, 0.02, 1  # gentle: a loss that is nearly 0 after 300 steps has no digits to compare
REPEATED_STEPS, INTERRUPTED_AT = 14, 5

# The most that a right job may be away; measured on gloo with 2, 3 and 4 ranks: 5e-16, 6e-15, 1e-15, 3e-7, 2e-7.
GRADIENT_64, LOSS_64, WEIGHTS_64 = 1e-12, 1e-10, 1e-10
GRADIENT_32, LOSS_32 = 1e-5, 1e-5
LOSSES_32 = 10  # steps: rounding alone parts float32 runs for good after some dozens
SAME = 1e-9  # how near a gradient must be to that of a mistake to be recognised as its


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way of training that must not depend on the number of ranks."""

    name: str
    """What reports call it."""
    dtype: str = "float64"
    """Of weights and images: a key of `recipe.DTYPES`."""
    accumulate: int = 1
    """Backward passes per optimizer step."""
    clip_grad: float | None = None
    """The most that the norm of all gradients may be; None to leave it."""


PLAIN = Way(name="plain")
FULL = Way(name="accumulated and clipped", accumulate=4, clip_grad=1.0)
SINGLE = Way(name="float32", dtype="float32")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """What a run did. Tensors of N ranks have a row for each rank, those of one process have none."""

    losses: list[float]
    """The mean loss over the global batch of each step."""
    gradients: dict[int, Tensor]
    """The gradients of the watched steps, by step, all parameters in one vector."""
    weights: Tensor
    """All parameters at the end, in one vector."""
    of_shares: dict[int, Tensor]
    """One process alone: for each watched step the gradient of the mean over each rank's share, one per row."""
    counts: dict[int, list[int]]
    """One process alone: for each watched step how many samples each rank's share has."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run every gate, as one rank of a job that a launcher started."""
    parser = argparse.ArgumentParser(
        description="Check that N ranks compute what one process computes.", allow_abbrev=False
    )
    parser.add_argument(
        "--steps", type=int, default=300, help="how long losses and weights are compared; at least an epoch"
    )
    parser.add_argument(
        "--mistake", choices=tuple(MISTAKES), help="make this mistake on purpose, to see what the check reports"
    )
    parser.add_argument("--backend", choices=("gloo", "nccl"))
    parser.add_argument("--json-lines", type=Path)
    options = parser.parse_args(arguments)
    device = join(options.backend)
    torch.use_deterministic_algorithms(mode=True, warn_only=True)
    try:
        Proof(options.steps, options.mistake, device, options.json_lines).run()
    finally:
        dist.destroy_process_group()


class Proof:
    """All gates on this rank; rank 0 compares and reports."""

    def __init__(self, steps: int, mistake: str | None, device: torch.device, log: Path | None) -> None:
        self.rank, self.world_size = dist.get_rank(), dist.get_world_size()
        self.mistake, self.device = mistake, device
        self.each = BATCH // self.world_size
        self.images, self.labels = (part[:SAMPLES].to(device) for part in load(DIGITS, "train").tensors)
        self.last_of_epoch = len(self.shares(0, 0)) - 1
        self.steps = max(steps, self.last_of_epoch + 1)
        self.progress = Progress(4 * self.steps, log)

    @property
    def watched(self) -> tuple[int, ...]:
        """The steps whose gradients are compared: the first two, and the uneven one at the end of the epoch."""
        return (0, 1, self.last_of_epoch)

    def run(self) -> None:
        """Every gate in turn, the sharpest first."""
        signature = None
        for way in (PLAIN, FULL):
            ours, theirs = self.train(way, self.steps), self.alone(way, self.steps)
            if self.rank == 0:
                signature = self.compare(way, ours, theirs) or signature
        ours, theirs = self.train(SINGLE, LOSSES_32), self.alone(SINGLE, LOSSES_32)
        if self.rank == 0:
            self.gate(
                "float32: gradient of the first step", distance(ours.gradients[0], theirs.gradients[0]), GRADIENT_32
            )
            self.gate(f"float32: losses of {LOSSES_32} steps", loss_distance(ours, theirs), LOSS_32)
        self.bits("same seed, same bits", self.repeated())
        self.bits("resumed, same bits", self.resumed())
        self.progress.say(
            "proof", world_size=self.world_size, backend=dist.get_backend(), steps=self.steps, signature=signature,
            device=torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else "cpu",
        )  # fmt: skip

    def compare(self, way: Way, ours: Trace, theirs: Trace) -> str | None:
        """Gate the gradients, losses and weights of a way; the signature of the first gradient that fails, if one does."""
        signature = None
        for step, words in zip(self.watched, ("the first step", "the second step", "the uneven step"), strict=True):
            away = distance(ours.gradients[step], theirs.gradients[step])
            self.gate(f"{way.name}: gradient of {words}", away, GRADIENT_64)
            if not away <= GRADIENT_64 and signature is None:
                signature = recognise(step, ours.gradients, theirs)
        self.gate(f"{way.name}: losses of {self.steps} steps", loss_distance(ours, theirs), LOSS_64)
        self.gate(f"{way.name}: weights after {self.steps} steps", distance(ours.weights, theirs.weights), WEIGHTS_64)
        return signature

    def gate(self, name: str, measured: float, allowed: float) -> None:
        """Report one comparison."""
        self.progress.say("gate", name=name, measured=measured, allowed=allowed)

    def bits(self, name: str, digests: list[str]) -> None:
        """Gate equality of bits: the number of other digests than the first must be none."""
        self.gate(name, float(sum(digest != digests[0] for digest in digests)), 0.0)

    def train(self, way: Way, steps: int) -> Trace:
        """A run of N ranks; gradients and losses are gathered on all of them."""
        stepper = self.stepper(way)
        losses, gradients = [], {}
        for step, share in enumerate(self.mine(steps)):
            images, labels = self.batch(share.indices, way)
            stepper.clear()
            total = stepper.backward(images, labels, share.everyone)
            dist.all_reduce(total)
            losses.append(total.item() / share.everyone)
            if step in self.watched:
                gradients[step] = gathered(flat(parameter.grad for parameter in stepper.model.parameters()))
            stepper.update()
            self.progress.step(0, total / share.everyone, (step + 1) * BATCH)
        weights = gathered(flat(stepper.model.parameters()))
        return Trace(losses=losses, gradients=gradients, weights=weights, of_shares={}, counts={})

    def alone(self, way: Way, steps: int) -> Trace:
        """The same steps in one process, without DDP and all in one batch; only rank 0 makes them."""
        network = self.network(way)
        trace = Trace(losses=[], gradients={}, weights=flat(network.parameters()), of_shares={}, counts={})
        if self.rank == 0:
            optimizer = torch.optim.SGD(network.parameters(), lr=RATE, momentum=0.9)
            everybody = [self.epochs(rank, steps) for rank in range(self.world_size)]
            for step, parts in enumerate(zip(*everybody, strict=True)):
                if step in self.watched:
                    alone = [gradient_of(network, *self.batch(part.indices, way)) for part in parts]
                    trace.of_shares[step] = torch.stack(alone)
                    trace.counts[step] = [len(part.indices) for part in parts]
                optimizer.zero_grad()
                images, labels = self.batch([index for part in parts for index in part.indices], way)
                loss = F.cross_entropy(network(images), labels)
                loss.backward()
                trace.losses.append(loss.item())
                if step in self.watched:
                    trace.gradients[step] = flat(parameter.grad for parameter in network.parameters())
                if way.clip_grad is not None:
                    torch.nn.utils.clip_grad_norm_(network.parameters(), way.clip_grad)
                optimizer.step()
                self.progress.step(0, loss, (step + 1) * BATCH)
        dist.barrier()
        return replace(trace, weights=flat(network.parameters()))

    def repeated(self) -> list[str]:
        """The digests of the weights on all ranks after each of two runs with one seed."""
        return [digest for _ in range(2) for digest in self.run_through(REPEATED_STEPS)]

    def resumed(self) -> list[str]:
        """The digests after a run, and after one that was interrupted, saved, loaded into another model and went on."""
        way = replace(SINGLE, clip_grad=1.0)
        whole = self.run_through(REPEATED_STEPS)
        before = self.stepper(way)
        self.advance(before, 0, INTERRUPTED_AT)
        state = (before.model.module.state_dict(), before.optimizer.state_dict(), before.schedule.state_dict())
        after = self.stepper(way)
        after.model.module.load_state_dict(state[0])
        after.optimizer.load_state_dict(state[1])
        after.schedule.load_state_dict(state[2])
        self.advance(after, INTERRUPTED_AT, REPEATED_STEPS)
        return [*whole, *digests(after.model.module)]

    def run_through(self, steps: int) -> list[str]:
        """The digests after `steps` steps in float32."""
        stepper = self.stepper(replace(SINGLE, clip_grad=1.0))
        self.advance(stepper, 0, steps)
        return digests(stepper.model.module)

    def advance(self, stepper: Stepper, begin: int, end: int) -> None:
        """Make the steps from `begin` to before `end`."""
        for share in self.mine(end)[begin:]:
            stepper.step(*self.batch(share.indices, SINGLE), share.everyone)

    def network(self, way: Way) -> nn.Module:
        """The model as it is before the first step; it has no BatchNorm, whose statistics depend on the number of ranks."""
        torch.manual_seed(SEED)
        return DigitNet().to(self.device, DTYPES[way.dtype])

    def stepper(self, way: Way) -> Stepper:
        """The model under DDP, its buckets settled, with what makes steps of this way."""
        model = wrap(self.network(way), parse([]), self.device)
        settle_buckets(model, self.batch([0], way)[0])
        optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9)
        return Stepper(
            model=model,
            optimizer=optimizer,
            schedule=LambdaLR(optimizer, lambda _: 1.0),
            scaler=torch.amp.GradScaler(self.device.type, enabled=False),
            device=self.device,
            amp="none",
            accumulate=way.accumulate,
            clip_grad=way.clip_grad,
            phases=Phases(self.device),
            mistake=self.mistake,
        )

    def batch(self, indices: list[int], way: Way) -> tuple[Tensor, Tensor]:
        """Images and labels of these samples."""
        return pixels(self.images[indices]).to(DTYPES[way.dtype]), self.labels[indices]

    def shares(self, rank: int, epoch: int) -> list[Share]:
        """The steps of an epoch of one rank."""
        return shares(SAMPLES, epoch=epoch, seed=SEED, rank=rank, world_size=self.world_size, each=self.each, pad=False)

    def mine(self, steps: int) -> list[Share]:
        """The first `steps` steps of this rank."""
        return self.epochs(0 if self.mistake == "same-data" else self.rank, steps)

    def epochs(self, rank: int, steps: int) -> list[Share]:
        """The first `steps` steps of one rank, over as many epochs as that takes."""
        found: list[Share] = []
        epoch = 0
        while len(found) < steps:
            found += self.shares(rank, epoch)
            epoch += 1
        return found[:steps]


def recognise(step: int, ours: dict[int, Tensor], theirs: Trace) -> str:
    """Which mistake gives the gradients of `step`, by computing what each of them would give.

    Every step before this one is right, so both runs have the same weights.
    """
    world_size = len(theirs.counts[step])
    counts = torch.tensor(theirs.counts[step], dtype=theirs.gradients[step].dtype).to(theirs.gradients[step].device)
    of_shares, right, everyone = theirs.of_shares[step], theirs.gradients[step], counts.sum()
    would_be = {
        "loss-summed": right * everyone / world_size,
        "divided-twice": right / world_size,
        "uneven-batches": of_shares.mean(0),
        "wrapper-bypassed": of_shares * (counts * world_size / everyone)[:, None],
        "same-data": of_shares[0] * counts[0] * world_size / everyone,
        "zero-grad-missing": right + ours.get(step - 1, right)[0],
    }
    scale = (ours[step][0].norm() / right.norm()).item()
    cosine = F.cosine_similarity(ours[step][0], right, dim=0).item()
    measured = f"of {scale:.3g} times the right length, at cosine {cosine:.3f} to it"
    for mistake, gradient in would_be.items():
        if distance(ours[step], gradient) <= SAME:
            return f"{mistake}: {MISTAKES[mistake]} (a gradient {measured})"
    return f"no known mistake gives such a gradient, {measured}"


def gradient_of(network: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    """The gradient of the mean loss over these samples; zeros where there are none."""
    loss = F.cross_entropy(network(images), labels, reduction="sum") / max(1, len(labels))
    return flat(torch.autograd.grad(loss, list(network.parameters())))


def flat(tensors: Iterable[Tensor | None]) -> Tensor:
    """All elements in one vector."""
    return torch.cat([tensor.detach().flatten() for tensor in tensors if tensor is not None])


def gathered(vector: Tensor) -> Tensor:
    """The vectors of all ranks, one a row."""
    rows = [torch.empty_like(vector) for _ in range(dist.get_world_size())]
    dist.all_gather(rows, vector)
    return torch.stack(rows)


def distance(ours: Tensor, theirs: Tensor) -> float:
    """How far the worst rank's vector is from theirs, relative to the length of theirs."""
    return float(((ours - theirs).norm(dim=1) / theirs.norm(dim=-1)).max())


def loss_distance(ours: Trace, theirs: Trace) -> float:
    """The worst relative difference between the losses of a step."""
    worst = [abs(mine - other) / abs(other) for mine, other in zip(ours.losses, theirs.losses, strict=True)]
    return max(worst) if all(math.isfinite(away) for away in worst) else math.inf


if __name__ == "__main__":
    main()
