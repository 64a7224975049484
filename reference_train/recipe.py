"""Train with everything that a production job has. Read train.py first: this is the same job with its options.

    torchrun --nproc-per-node 4 reference_train/recipe.py --dataset cifar10 --data-dir DIR --model resnet18 --amp bf16

Each option's work is in a file of its own: stepping.py (accumulation, mixed precision, clipping), shares.py (who takes which
samples), checkpoint.py, stopping.py (signals), schedule.py (learning rate), wrapping.py (DDP's own
options), seeding.py, pictures.py, cifar10.py, networks.py, records.py.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import checkpoint
import torch
import torch.distributed as dist
from checkpoint import BEST, LAST, Position, best_of
from download import download
from networks import build
from phases import Phases
from pictures import Pictures, open_pictures
from recipe_options import BadOption, Options, parse
from records import Records
from schedule import peak_rate, share_of_peak
from seeding import seed_everything, seed_worker
from shares import Share, shares
from stepping import Stepper
from stopping import Stopping
from torch import Tensor
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader
from train import BadInput, digests, evaluate, exit_code, join, together
from wrapping import hidden_communication, send_buffers, settle_buckets, wrap

DTYPES = {"float32": torch.float32, "float64": torch.float64}


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, evaluate and report, as one rank of a job that a launcher started."""
    options = parse(arguments)
    device = join(options.backend)
    try:  # whatever happens below, the process group is left in order
        code = exit_code(lambda: train(options, device), options.json_lines)
    finally:
        dist.destroy_process_group()
    sys.exit(code)


def train(options: Options, device: torch.device) -> None:
    """The job, if this many ranks can follow the options."""
    try:
        options.checked(dist.get_world_size())
    except BadOption as error:
        raise BadInput(str(error)) from None
    Job(options, device).run()


class Job:
    """One rank of the job, from its data to its last checkpoint."""

    def __init__(self, options: Options, device: torch.device) -> None:
        self.options, self.device = options, device
        self.rank, self.world_size = dist.get_rank(), dist.get_world_size()
        self.each = options.samples_a_step(self.world_size) // self.world_size
        self.dtype = DTYPES[options.dtype]
        self.peak = options.lr or peak_rate(options.model, self.each * self.world_size)
        together(lambda: fetch(options))
        self.pictures = together(lambda: pictures_of(options))
        self.steps = options.epochs * len(self._shares(0))
        self.position = Position()
        self.stopping = Stopping()
        seed_everything(options.seed)  # the same initial weights on every rank; DDP sends rank 0's anyway
        network = build(options.model, channels=self.pictures.channels, norm=options.norm)
        self.model = wrap(network.to(device, self.dtype), options, device)
        seed_everything(options.seed + 1 + self.rank)  # from here on, other random numbers on every rank
        self.stepper = self._stepper()

    def run(self) -> None:
        """Train to the end, or until the job is asked to stop."""
        self._resume()
        settle_buckets(self.model, self._prepared(self.pictures.training[:2][0].to(self.device)))
        options = self.options
        done = self.position.total
        records = Records(self.steps, options.json_lines, done=done, tensorboard=options.tensorboard, plot=options.plot)
        together(records.open)
        with closing(records):
            seconds = 0.0
            tested: Tested | None = None
            while not self._finished():
                start = time.perf_counter()
                stopped = not self._epoch(records, done)
                if self.device.type == "cuda":
                    torch.cuda.synchronize()
                seconds += time.perf_counter() - start
                if stopped:
                    self._save(LAST)
                    records.say("stopped", step=self.position.total, checkpoint_dir=str(options.checkpoint_dir))
                    return
                tested = self._test()
                records.say("epoch", epoch=self.position.epoch, seconds=seconds, **asdict(tested))
            tested = tested or self._test()
            records.say("end", **self._result(tested, self.position.total - done, seconds))

    def _finished(self) -> bool:
        position, options = self.position, self.options
        idle = options.patience is not None and position.epoch - position.best_epoch >= options.patience
        return idle or position.epoch >= options.epochs or position.total == options.max_steps

    def _epoch(self, records: Records, begun: int) -> bool:
        """Train to the end of the epoch, or of all steps; False where the job was asked to stop before.

        `begun` is the step at which this run of the job began.
        """
        options, position = self.options, self.position
        self.model.train()
        shares = self._shares(position.epoch)[position.step :]
        with self.model.join() if options.uneven == "join" else nullcontext():
            for share, (images, labels) in zip(shares, self._batches(shares), strict=True):
                images, labels = images.to(self.device, non_blocking=True), labels.to(self.device, non_blocking=True)
                everyone = share.everyone if options.uneven != "join" else len(labels) * self.world_size
                loss = self.stepper.step(self._prepared(images, augment=True), labels, everyone)
                position.step += 1
                position.total += 1
                seen = (position.total - begun) * self.each * self.world_size
                records.step(position.epoch, loss / max(1, len(labels)), seen)
                if position.total == options.max_steps:
                    break
                if options.uneven == "join":
                    continue  # ranks may be at different steps in here: nothing that needs all of them
                if options.checkpoint_every and position.total % options.checkpoint_every == 0:
                    self._save(LAST)
                if self.stopping.together(position.total, self.device):
                    return False
        if options.uneven == "join":
            self._catch_up()
        if position.total != options.max_steps:
            position.epoch, position.step = position.epoch + 1, 0
        return True

    def _test(self) -> Tested:
        """Accuracy and loss over the whole test set, kept as the best and the last."""
        send_buffers(self.model.module)
        accuracy, loss = evaluate(self.model.module, self.pictures.test, self.device, self._prepared)
        if loss < self.position.best_loss:  # the same number on every rank, so that all decide alike
            self.position.best_loss, self.position.best_epoch = loss, self.position.epoch
        self._keep_best(loss if self.options.best_by == "loss" else -accuracy)
        self._save(LAST)
        return Tested(accuracy=accuracy, test_loss=loss)

    def _keep_best(self, score: float) -> None:
        """Keep a checkpoint of this epoch if it is one of the best, and remove the one that it displaces."""
        displaced = self.position.rank(score, self.options.keep_best)
        if displaced is None:
            return
        if self.options.keep_best > 1:
            self._save(best_of(self.position.epoch))
        if self.position.best[0] == (score, self.position.epoch):
            self._save(BEST)
        if self.rank == 0 and self.options.checkpoint_dir is not None:
            for epoch in displaced:
                (self.options.checkpoint_dir / best_of(epoch)).unlink(missing_ok=True)

    def _batches(self, shares: Sequence[Share]) -> Iterator[tuple[Tensor, Tensor]]:
        loader: DataLoader[Any] = DataLoader(
            self.pictures.training,
            batch_size=None,  # whole batches of indices: they are taken from the tensors at once, not one by one
            sampler=[share.indices for share in shares],
            num_workers=self.options.workers,
            pin_memory=self.device.type == "cuda",
            worker_init_fn=seed_worker,
            generator=torch.Generator().manual_seed(self.options.seed + self.rank),
        )
        batches = iter(loader)
        for _ in shares:
            with self.stepper.phases("data"):
                batch = next(batches)
            yield batch

    def _shares(self, epoch: int) -> list[Share]:
        alike = self.options.mistake == "same-data"
        found = shares(
            len(self.pictures.training), epoch=epoch, seed=self.options.seed, rank=0 if alike else self.rank,
            world_size=self.world_size, each=self.each, pad=self.options.uneven == "pad",
        )  # fmt: skip
        return [share for share in found if share.indices] if self.options.uneven == "join" else found

    def _prepared(self, images: Tensor, *, augment: bool = False) -> Tensor:
        """A batch as numbers. The random shifts depend on seed, step and rank alone, so that a resumed job repeats them."""
        generator = None
        if augment:
            place = (self.options.seed * 1_000_003 + self.position.total) * self.world_size + self.rank
            generator = torch.Generator().manual_seed(place)
        return self.pictures.prepared(images, self.dtype, generator)

    def _stepper(self) -> Stepper:
        options = self.options
        optimizer = torch.optim.SGD(
            self.model.parameters(), lr=self.peak, momentum=0.9, nesterov=True, weight_decay=options.weight_decay
        )
        warmup = max(1, int(options.warmup_epochs * self.steps / options.epochs))
        return Stepper(
            model=self.model,
            optimizer=optimizer,
            schedule=LambdaLR(optimizer, partial(share_of_peak, steps=self.steps, warmup_steps=warmup)),
            scaler=torch.amp.GradScaler(self.device.type, enabled=options.amp == "fp16"),
            device=self.device,
            amp=options.amp,
            accumulate=options.accumulate,
            clip_grad=options.clip_grad,
            phases=Phases(self.device),
            mistake=options.mistake,
        )

    def _catch_up(self) -> None:
        """After Join: DDP has sent the weights of a rank that made all steps; send its optimizer state and count too.

        Rank 0 makes the most steps. A rank that joined early has stale momentum, which nothing else would correct.
        """
        kept: list[Any] = [self.stepper.optimizer.state_dict(), self.stepper.schedule.state_dict(), self.position.total]
        dist.broadcast_object_list(kept, src=0, device=self.device)
        self.stepper.optimizer.load_state_dict(kept[0])
        self.stepper.schedule.load_state_dict(kept[1])
        self.position.total = kept[2]

    def _identity(self) -> dict[str, Any]:
        """What a checkpoint must agree with: it holds the rate itself, and would silently overrule another one."""
        return {
            "dataset": self.pictures.name,
            "model": self.options.model,
            "norm": self.options.norm,
            "dtype": self.options.dtype,
            "world_size": self.world_size,
            "batch_size": self.each * self.world_size,
            "uneven": self.options.uneven,
            "lr": self.peak,
            "weight_decay": self.options.weight_decay,
            "epochs": self.options.epochs,
            "seed": self.options.seed,
        }

    def _save(self, name: str) -> None:
        """Write a checkpoint; rank 0 does, and the others learn whether it could."""
        folder = self.options.checkpoint_dir
        if folder is None:
            return
        random_states = checkpoint.random_states(self.device)

        def write() -> None:
            if self.rank == 0:
                state = {
                    "job": self._identity(),
                    "position": asdict(self.position),
                    "model": self.model.module.state_dict(),
                    "optimizer": self.stepper.optimizer.state_dict(),
                    "schedule": self.stepper.schedule.state_dict(),
                    "scaler": self.stepper.scaler.state_dict(),
                    "random": random_states,
                }
                checkpoint.save(folder / name, state)

        together(write)

    def _resume(self) -> None:
        """Go on from the last checkpoint, where the options ask for it and there is one."""
        folder = self.options.checkpoint_dir
        if folder is None:
            return
        if self.rank == 0:
            checkpoint.clear_leftovers(folder)
        if not self.options.resume:
            return
        # Rank 0 looks, so that ranks cannot disagree about which file there is; each reads it, so that none need send it.
        there = [(folder / LAST).exists()]
        dist.broadcast_object_list(there, src=0, device=self.device)
        if not there[0]:
            return
        state = together(lambda: checkpoint.read(folder / LAST, self._identity()))
        self.model.module.load_state_dict(state["model"])
        self.stepper.optimizer.load_state_dict(state["optimizer"])
        self.stepper.schedule.load_state_dict(state["schedule"])
        self.stepper.scaler.load_state_dict(state["scaler"])
        checkpoint.set_random_state(state["random"][self.rank], self.device)
        self.position = Position(**state["position"])
        self.position.best = [(score, epoch) for score, epoch in self.position.best]

    def _result(self, tested: Tested, steps: int, seconds: float) -> dict[str, Any]:
        on_gpu = self.device.type == "cuda"
        return {
            **asdict(tested),
            "complete": self.position.total != self.options.max_steps,
            "dataset": self.pictures.name,
            "model": self.options.model,
            "test_samples": len(self.pictures.test),
            "samples_per_second": steps * self.each * self.world_size / seconds if steps else 0.0,
            "seconds": seconds,
            "world_size": self.world_size,
            "backend": dist.get_backend(),
            "device": torch.cuda.get_device_name(self.device) if on_gpu else "cpu",
            "batch_size": self.each * self.world_size,
            "seed": self.options.seed,
            "weights": digests(self.model.module),
            "phases": self.stepper.phases.seconds(),
            "overlap": hidden_communication(self.model),
            "gpu_memory_bytes": torch.cuda.max_memory_allocated() if on_gpu else None,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Tested:
    """The result on the whole test set."""

    accuracy: float
    """The share of images whose digit or class is right, 0 to 1."""
    test_loss: float
    """The mean cross entropy of an image."""


def fetch(options: Options) -> None:
    """Download the data set where the options say so, once a machine."""
    if options.download and options.data_dir is not None and int(os.environ.get("LOCAL_RANK", "0")) == 0:
        download(options.dataset, options.data_dir)


def pictures_of(options: Options) -> Pictures:
    """The data set that the options ask for."""
    return open_pictures(options.dataset, options.data_dir, generated=options.generated, seed=options.seed)


if __name__ == "__main__":
    main()
