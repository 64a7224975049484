"""Train a small network on handwritten digits with DistributedDataParallel, the way it should be done.

    torchrun --nproc-per-node 2 reference_train/train.py

Reads from top to bottom, needs torch and numpy alone, and is meant to be copied. Each place that guides get wrong has a
comment that says what goes wrong there.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import hashlib
import json
import math
import os
import sys
import time
import zlib
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - everybody's name for it
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler, TensorDataset

T = TypeVar("T")

DIGITS = Path(__file__).parent / "digits"  # 8,000 + 1,000 digits of MNIST; digits/README.md says where they are from
# At 64 samples per step; it grows with the batch (Goyal et al. 2017, "Accurate, Large Minibatch SGD").
LEARNING_RATE = 0.1
MNIST_LABELS = 0xBA07E8EF  # the CRC-32 of MNIST's 60,000 training labels: other data in its format is not MNIST
MOST_BYTES = 1 << 28  # far more than MNIST's 47 MB: a .gz of a few bytes must not fill the memory
MEAN, DEVIATION = 0.1307, 0.3081  # of MNIST's training pixels, scaled to 0..1


class DigitNet(nn.Module):
    """Two convolutions, two linear layers: 28x28 grey images to ten scores, 206,922 parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, kernel_size=3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, kernel_size=3, padding=1)
        self.hidden = nn.Linear(32 * 7 * 7, 128)
        self.scores = nn.Linear(128, 10)

    def forward(self, images: Tensor) -> Tensor:
        """Scores of shape (batch, 10) for images of shape (batch, 1, 28, 28)."""
        x = F.max_pool2d(F.relu(self.conv1(images)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.scores(F.relu(self.hidden(x.flatten(1))))  # type: ignore[no-any-return]


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, evaluate and report, as one rank of a job that torchrun started."""
    options, unknown = parse(arguments)
    if unknown:  # recipe.py, where it stands beside this file, has all the options that are missing here
        recipe = Path(__file__).with_name("recipe.py")
        if not recipe.exists():
            sys.exit(f"train.py has no option {unknown[0]}; `train.py --help` lists what it has")
        os.execv(sys.executable, [sys.executable, str(recipe), *sys.argv[1:]])  # noqa: S606
    device = join(options.backend)
    try:  # whatever happens below, the process group is left in order
        code = exit_code(lambda: train(options, device), options.json_lines)
    finally:
        dist.destroy_process_group()
    sys.exit(code)


def parse(arguments: Sequence[str] | None = None) -> tuple[argparse.Namespace, list[str]]:
    """The options on the command line, and what is left of it."""
    parser = argparse.ArgumentParser(
        description="Train on handwritten digits; recipe.py has many more options.", allow_abbrev=False
    )
    parser.add_argument("--data-dir", type=Path, default=DIGITS, help="MNIST's idx files, plain or .gz")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=64, help="samples per step, over all ranks together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--backend", choices=("gloo", "nccl"), help="default: nccl where there are GPUs, else gloo")
    parser.add_argument("--json-lines", type=Path, help="a file to append to")
    return parser.parse_known_args(arguments)


def join(backend: str | None = None, *, timeout: timedelta | None = None) -> torch.device:
    """Join the job's process group; returns the device that this rank computes on."""
    if "RANK" not in os.environ:
        sys.exit("train.py is started by a launcher: torchrun --nproc-per-node 2 train.py")
    backend = backend or ("nccl" if torch.cuda.is_available() else "gloo")
    device = torch.device("cpu")
    if backend == "nccl":
        # Each rank its own GPU, chosen before anything else touches CUDA: otherwise all of them land on GPU 0.
        index = int(os.environ["LOCAL_RANK"])
        if os.environ.get("NCCL_MULTI_RANK_GPU_ENABLE") == "1":  # NCCL then lets ranks share a GPU
            index %= torch.cuda.device_count()
        device = torch.device("cuda", index)
        if device.index >= torch.cuda.device_count():
            sys.exit(
                f"LOCAL_RANK {device.index} has no GPU: {torch.cuda.device_count()} are visible; or use --backend gloo"
            )
        torch.cuda.set_device(device)
        torch.backends.cudnn.deterministic = True
    dist.init_process_group(backend, timeout=timeout)
    return device


def train(options: argparse.Namespace, device: torch.device) -> None:
    """The job: the same model on every rank, another part of the data on each."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    if options.batch_size < world_size:
        raise BadInput(f"--batch-size {options.batch_size} is smaller than the {world_size} ranks that share it")
    if options.epochs < 1:
        raise BadInput(f"--epochs {options.epochs} is less than 1")
    training, test = together(lambda: (load(options.data_dir, "train"), load(options.data_dir, "t10k")))

    torch.manual_seed(options.seed)  # the same initial weights on every rank; DDP sends rank 0's anyway
    model = DistributedDataParallel(
        DigitNet().to(device),
        device_ids=[device.index] if device.type == "cuda" else None,
        gradient_as_bucket_view=True,  # gradients live in DDP's buckets instead of being copied into them and back
    )
    torch.manual_seed(options.seed + 1 + rank)  # from here on, other random numbers on every rank

    # The sampler gives each rank its own part; without it every rank trains on the same samples. Drawing whole batches
    # of indices (batch_size=None) takes them from the tensors at once instead of one by one.
    sampler: DistributedSampler[Any] = DistributedSampler(training, shuffle=True, seed=options.seed)
    batches = BatchSampler(sampler, batch_size=options.batch_size // world_size, drop_last=False)
    loader: DataLoader[Any] = DataLoader(training, sampler=batches, batch_size=None, pin_memory=device.type == "cuda")
    peak = LEARNING_RATE * options.batch_size / 64
    optimizer = torch.optim.SGD(model.parameters(), lr=peak, momentum=0.9, nesterov=True, weight_decay=5e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, peak, total_steps=options.epochs * len(loader))

    progress = Progress(options.epochs * len(loader), options.json_lines)
    together(progress.open)
    seconds, seen = 0.0, 0
    for epoch in range(options.epochs):
        sampler.set_epoch(epoch)  # without this the order of epoch 0 is repeated for ever
        model.train()
        start = time.perf_counter()
        for images, labels in loader:
            images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
            loss = F.cross_entropy(model(pixels(images)), labels)
            optimizer.zero_grad()
            loss.backward()  # DDP averages the gradients over the ranks in here
            optimizer.step()
            schedule.step()
            seen += len(labels) * world_size  # the sampler pads, so that every rank has the same number of samples
            progress.step(epoch, loss, seen)
        loss.item()  # waits for the GPU, which is still at work
        seconds += time.perf_counter() - start
        accuracy, test_loss = evaluate(model.module, test, device)
        progress.say("epoch", epoch=epoch + 1, accuracy=accuracy, test_loss=test_loss, seconds=seconds)
    progress.say(
        "end",
        dataset=name_of(options.data_dir, training),
        model="digitnet",
        accuracy=accuracy,
        test_loss=test_loss,
        test_samples=len(test),
        samples_per_second=seen / seconds,
        seconds=seconds,
        world_size=world_size,
        backend=dist.get_backend(),
        device=torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        batch_size=options.batch_size,
        seed=options.seed,
        weights=digests(model.module),
    )


@torch.no_grad()
def evaluate(
    model: nn.Module, test: TensorDataset, device: torch.device, prepare: Callable[[Tensor], Tensor] | None = None
) -> tuple[float, float]:
    """Accuracy and mean loss over the whole test set, each sample counted exactly once whatever the number of ranks.

    The plain module is called, not the DDP wrapper: ranks may have one batch more or less here, and the wrapper's forward
    may communicate. Sums and counts are added up over the ranks; a mean of the ranks' means would be wrong.
    """
    model.eval()
    totals = torch.zeros(3, dtype=torch.float64, device=device)
    mine = range(dist.get_rank(), len(test), dist.get_world_size())
    for begin in range(0, len(mine), 500):
        images, labels = (part.to(device) for part in test[list(mine[begin : begin + 500])])
        scores = model((prepare or pixels)(images))
        totals += torch.stack(
            (
                (scores.argmax(1) == labels).sum(),
                F.cross_entropy(scores, labels, reduction="sum"),
                totals.new_tensor(len(labels)),
            )
        )
    dist.all_reduce(totals)
    correct, loss, count = totals.tolist()
    return correct / count, loss / count


def digests(model: nn.Module) -> list[str]:
    """A digest of the weights on each rank: all equal, or the replicas have come apart."""
    mine = hashlib.sha256()
    for tensor in model.state_dict().values():
        mine.update(tensor.cpu().numpy().tobytes())
    everyone: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, mine.hexdigest()[:16])
    return everyone


def pixels(images: Tensor) -> Tensor:
    """Bytes of shape (batch, 28, 28) as normalised floats of shape (batch, 1, 28, 28)."""
    return ((images.float() / 255 - MEAN) / DEVIATION).unsqueeze(1)


def load(folder: Path, part: str) -> TensorDataset:
    """The images and labels of `train` or `t10k`: decoded once, 47 MB for all of MNIST.

    Raises:
        BadInput: a file is missing, cut short or something else; the message says which, and how many bytes it has.
    """
    images, labels = read_idx(folder, f"{part}-images-idx3-ubyte"), read_idx(folder, f"{part}-labels-idx1-ubyte")
    if len(images) != len(labels):
        raise BadInput(f"{folder} holds {len(images)} {part} images but {len(labels)} labels")
    return TensorDataset(torch.from_numpy(images), torch.from_numpy(labels.astype(np.int64)))


def name_of(folder: Path, training: TensorDataset) -> str:
    """What the result calls the data: `digits` for the embedded ones, `mnist` for the whole of it, or where they are from."""
    if folder == DIGITS:
        return "digits"
    labels = training.tensors[1].to(torch.uint8).numpy()
    return "mnist" if zlib.crc32(labels.tobytes()) == MNIST_LABELS else f"the files in {folder}"


def read_idx(folder: Path, name: str) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """The array in an idx file, plain or .gz: two zero bytes, type 8, the number of dimensions, their sizes, the bytes."""
    path = next(
        (
            folder / f
            for f in (name, f"{name}.gz", f"MNIST/raw/{name}", f"MNIST/raw/{name}.gz")
            if (folder / f).is_file()
        ),
        None,
    )
    if path is None:
        raise BadInput(f"{folder} holds neither {name} nor {name}.gz, nor MNIST/raw with one of them")
    try:
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = zlib.decompressobj(wbits=31).decompress(content, MOST_BYTES)  # what is there of a file cut short
    except (OSError, zlib.error) as error:
        raise BadInput(f"{path} cannot be read: {error}") from None
    dimensions = int(name.partition("idx")[2][0])
    header = 4 + 4 * dimensions
    if content[:4] != bytes((0, 0, 8, dimensions)) or len(content) < header:
        raise BadInput(
            f"{path} is not an idx file of {dimensions} dimensions of bytes: it begins with {content[:4].hex()}"
        )
    shape = tuple(int(size) for size in np.frombuffer(content, ">u4", count=dimensions, offset=4))
    expected = header + math.prod(shape)
    if len(content) != expected:
        raise BadInput(f"{path} has {len(content)} bytes; its header promises {expected} (shape {shape})")
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape).copy()


def together(load: Callable[[], T]) -> T:
    """What `load` gives on this rank, once it has worked on every rank.

    A rank that fails alone leaves the others waiting in their next collective: tell everybody first, then end together.

    Raises:
        BadInput: `load` raised it on some rank; rank by rank, the message says what.
    """
    problem, loaded = None, None
    try:
        loaded = load()
    except BadInput as error:
        problem = str(error)
    problems: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(problems, problem)
    if any(problems):
        raise BadInput("; ".join(dict.fromkeys(filter(None, problems))))
    return loaded  # type: ignore[return-value]


class BadInput(Exception):  # noqa: N818 - it is the user's mistake, not an error of ours
    """Something the user gave cannot be used; every rank raises it alike, rank 0 says it."""


def exit_code(job: Callable[[], None], log: Path | None) -> int:
    """0 once `job` has come to its end, 2 where it refuses its input; rank 0 says why.

    Nothing of the job is left then, not even its model: where DDP's reducer is the last to let go of the process group, it
    waits for gloo's threads while it holds Python's lock, and these may be waiting for that lock.
    """
    problem = None
    try:
        job()
    except BadInput as error:
        problem = str(error)  # the words alone: the error would hold on to the job
    gc.collect()
    if problem is None:
        return 0
    with contextlib.suppress(BadInput):  # the log itself may be what cannot be written
        Progress(0, log).say("refused", reason=problem)
    return 2


class Progress:
    """What rank 0 tells: a bar on stderr where that is a terminal, JSON lines in the log, the result on stdout."""

    def __init__(self, steps: int, log: Path | None, *, done: int = 0) -> None:
        self._speaks = dist.get_rank() == 0
        self._steps, self._first, self._done = steps, done, done
        results = os.environ.get("DDPDOCTOR_RESULTS")  # where ddpdoctor listens, if it started this job
        self._logs = {path for path in (log, results and Path(results)) if path} if self._speaks else set()
        self._start = self._last = time.perf_counter()

    def open(self) -> None:
        """Make sure, before any training, that there will be a place for what is told.

        Raises:
            BadInput: a file cannot be written; the message says which and why.
        """
        self._append("")

    def step(self, epoch: int, loss: Tensor, seen: int) -> None:
        """One step more; said at most five times a second, since reading the loss waits for the GPU."""
        self._done += 1
        now = time.perf_counter()
        if not self._speaks or now - self._last < 0.2:
            return
        self._last = now
        rate = seen / (now - self._start)
        self._write(
            "step", epoch=epoch + 1, step=self._done, steps=self._steps, loss=loss.item(), samples_per_second=rate
        )
        if sys.stderr.isatty():
            bar = "#" * (30 * self._done // self._steps)
            left = (self._steps - self._done) * (now - self._start) / (self._done - self._first)
            sys.stderr.write(
                f"\r[{bar:<30}] epoch {epoch + 1}, loss {loss.item():.3f}, {rate:,.0f} samples/s, {left:,.0f} s left\x1b[K"
            )

    def say(self, event: str, **facts: Any) -> None:  # noqa: ANN401 - whatever JSON holds
        """Print an event with its facts, and log it."""
        if self._speaks:
            if sys.stderr.isatty():
                sys.stderr.write("\r\x1b[K")
            print(f"{event}: " + ", ".join(f"{name} {fact}" for name, fact in facts.items()), flush=True)
            self._write(event, **facts)

    def _write(self, event: str, **facts: Any) -> None:  # noqa: ANN401
        self._append(json.dumps({"event": event, **facts}) + "\n")

    def _append(self, text: str) -> None:
        try:
            for path in self._logs:
                with path.open("a", encoding="utf-8") as file:
                    file.write(text)
        except OSError as error:
            raise BadInput(f"cannot write {path}: {error.strerror}") from None


if __name__ == "__main__":
    main()
