"""The options of recipe.py in one frozen type; nothing here needs torch, so that a typo is refused at once."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import NoReturn

MISTAKES = {
    "loss-summed": "the loss is summed over the batch instead of averaged",
    "divided-twice": "the loss is divided by the number of ranks, which DDP does as well",
    "uneven-batches": "each rank averages over its own batch, though batches differ in size",
    "wrapper-bypassed": "the plain module is called instead of the DDP wrapper",
    "same-data": "every rank trains on rank 0's samples",
    "zero-grad-missing": "gradients are never set to zero",
}


LEAST = {
    "epochs": 1, "max_steps": 1, "batch_size": 1, "batch_per_rank": 1, "accumulate": 1, "patience": 1, "workers": 0,
    "keep_best": 1, "checkpoint_every": 0, "warmup_epochs": 0, "weight_decay": 0,
}  # fmt: skip


class BadOption(Exception):  # noqa: N818 - it is the user's mistake, not an error of ours
    """Options that cannot be used, or not together; the message says which value and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the job is asked to do; `parse` has the defaults."""

    dataset: str
    """`mnist` or `cifar10`."""
    data_dir: Path | None
    """The folder of the data set's files; None for the embedded digits, or for generated images instead of CIFAR-10."""
    download: bool
    """Whether the files are fetched into `data_dir` before the training."""
    generated: bool
    """Whether the images are made up, in the shape of the data set's."""
    model: str
    """`digitnet`, `resnet9` or `resnet18`."""
    norm: str
    """The normalisation layers of a ResNet: `batch`, `group` or `sync`."""
    epochs: int
    """How many passes over the training set the job makes at most."""
    max_steps: int | None
    """The optimizer step after which the job ends; None where only epochs count."""
    batch_size: int
    """Samples per step over all ranks; rounded down to a multiple of the ranks."""
    batch_per_rank: int | None
    """Samples per step and rank instead of `batch_size`; None where that one counts."""
    accumulate: int
    """Backward passes per optimizer step."""
    uneven: str
    """What is done where ranks do not divide the samples: `pad`, `weigh` or `join`."""
    lr: float | None
    """The peak learning rate at this batch size; None for the model's own, which grows with the batch."""
    warmup_epochs: float
    """Over how many epochs the learning rate rises to its peak."""
    weight_decay: float
    """The optimizer's weight decay, 0 for none."""
    clip_grad: float | None
    """The most that the norm of all gradients may be; None to leave it."""
    amp: str
    """The dtype of autocast: `bf16`, `fp16`, or `none`."""
    dtype: str
    """The dtype of the weights: `float32` or `float64`."""
    hook: str
    """DDP's communication hook: `fp16`, `bf16`, `powersgd`, or `none`."""
    static_graph: bool
    """Given to DDP under this name."""
    bucket_view: bool
    """Given to DDP as `gradient_as_bucket_view`."""
    bucket_mb: float
    """Given to DDP as `bucket_cap_mb`, in MiB."""
    find_unused: bool
    """Given to DDP as `find_unused_parameters`."""
    workers: int
    """Processes of each rank's data loader; 0 loads in the rank itself."""
    patience: int | None
    """Epochs without a lower test loss after which the job stops; None to train to the end."""
    keep_best: int
    """How many of the best checkpoints are kept besides the last."""
    best_by: str
    """What makes an epoch the best on the test set: `loss` or `accuracy`."""
    checkpoint_dir: Path | None
    """The folder of the checkpoints; None to write none."""
    checkpoint_every: int
    """Optimizer steps between checkpoints within an epoch; 0 for one at the end of each epoch only."""
    resume: bool
    """Whether the job goes on from the last checkpoint, where there is one."""
    seed: int
    """Initial weights, the order of samples and augmentation follow from it."""
    backend: str | None
    """`gloo` or `nccl`; None for nccl where there are GPUs, else gloo."""
    json_lines: Path | None
    """The file that records are appended to, one JSON object per line; None for none."""
    tensorboard: Path | None
    """The folder for TensorBoard's event files; None for none."""
    plot: Path | None
    """The picture of loss and accuracy that is written at the end, .png or .svg; None for none."""
    mistake: str | None
    """One of `MISTAKES` that the job makes on purpose; None for a right job."""

    def checked(self, world_size: int) -> Options:
        """These options, if `world_size` ranks can follow them.

        Raises:
            BadOption: they cannot; the message has the value and what would do.
        """
        _check(self, world_size)
        return self

    def samples_a_step(self, world_size: int) -> int:
        """Samples a step over all ranks: a multiple of the ranks, so at most `batch_size`."""
        return (self.batch_per_rank or self.batch_size // world_size) * world_size


def parse(arguments: Sequence[str] | None = None) -> Options:
    """The options on the command line."""
    parser = _Parser(
        prog="recipe.py",
        description="Train with everything that a production job has; the simple path is train.py.",
        allow_abbrev=False,
    )
    data = parser.add_argument_group("data")
    data.add_argument("--dataset", choices=("mnist", "cifar10"), default="mnist")
    data.add_argument(
        "--data-dir", type=Path, help="where the files are; without it the embedded digits, or generated data"
    )
    data.add_argument(
        "--download", action="store_true", help="fetch the files into --data-dir first, checksums compared"
    )
    data.add_argument("--generated", action="store_true", help="made-up images of the data set's shape")
    data.add_argument("--workers", type=int, default=0, help="loader processes a rank; 0 is fastest for data in memory")
    model = parser.add_argument_group("model")
    model.add_argument(
        "--model", choices=("digitnet", "resnet9", "resnet18"), help="default: digitnet, or resnet9 for CIFAR-10"
    )
    model.add_argument("--norm", choices=("batch", "group", "sync"), default="batch", help="sync needs GPUs")
    training = parser.add_argument_group("training")
    training.add_argument("--epochs", type=int, default=3)
    training.add_argument("--max-steps", type=int, help="stop after this many steps")
    training.add_argument("--batch-size", type=int, default=64, help="samples per step, over all ranks together")
    training.add_argument(
        "--batch-per-rank", type=int, help="instead: samples per step and rank; the rate scales with it"
    )
    training.add_argument("--accumulate", type=int, default=1, metavar="K", help="backward passes a step")
    training.add_argument(
        "--uneven", choices=("pad", "weigh", "join"), default="pad",
        help="where ranks do not divide the samples: repeat some, weigh the batches exactly, or Join",
    )  # fmt: skip
    training.add_argument("--lr", type=float, help="peak learning rate at this batch; default: grows with the batch")
    training.add_argument("--warmup-epochs", type=float, default=1.0)
    training.add_argument("--weight-decay", type=float, default=5e-4)
    training.add_argument("--clip-grad", type=float, metavar="NORM")
    training.add_argument("--amp", choices=("none", "bf16", "fp16"), default="none", help="fp16 needs GPUs")
    training.add_argument("--dtype", choices=("float32", "float64"), default="float32")
    training.add_argument(
        "--patience", type=int, metavar="EPOCHS", help="stop when the test loss did not fall for so long"
    )
    training.add_argument("--seed", type=int, default=1)
    training.add_argument(
        "--mistake", choices=tuple(MISTAKES), help="make this mistake on purpose, to see what the check reports"
    )
    ddp = parser.add_argument_group("DistributedDataParallel")
    ddp.add_argument("--backend", choices=("gloo", "nccl"), help="default: nccl where there are GPUs, else gloo")
    ddp.add_argument("--hook", choices=("none", "fp16", "bf16", "powersgd"), default="none", help="bf16 needs NCCL")
    ddp.add_argument("--static-graph", action="store_true")
    ddp.add_argument(
        "--bucket-view", action=argparse.BooleanOptionalAction, default=True,
        help="gradient_as_bucket_view: gradients live in DDP's buckets instead of being copied into them and back",
    )  # fmt: skip
    ddp.add_argument("--bucket-mb", type=float, default=25.0, help="bucket_cap_mb")
    ddp.add_argument("--find-unused", action="store_true", help="find_unused_parameters")
    keeping = parser.add_argument_group("checkpoints and records")
    keeping.add_argument("--checkpoint-dir", type=Path, help="keep last.pt and best.pt here")
    keeping.add_argument(
        "--keep-best", type=int, default=1, metavar="K", help="keep the K best besides, each as best-epoch-N.pt"
    )
    keeping.add_argument("--best-by", choices=("loss", "accuracy"), default="loss", help="on the test set")
    keeping.add_argument(
        "--checkpoint-every", type=int, default=0, metavar="STEPS", help="besides the end of each epoch"
    )
    keeping.add_argument("--resume", action="store_true", help="go on from last.pt where there is one")
    keeping.add_argument("--json-lines", type=Path, help="a file to append to")
    keeping.add_argument("--tensorboard", type=Path, metavar="DIR")
    keeping.add_argument("--plot", type=Path, metavar="FILE", help="the curve of loss and accuracy, .png or .svg")
    given = vars(parser.parse_args(arguments))
    given["model"] = given["model"] or ("digitnet" if given["dataset"] == "mnist" else "resnet9")
    return Options(**{field.name: given[field.name] for field in fields(Options)})


def main(arguments: Sequence[str]) -> None:
    """Check options without starting ranks: `recipe_options.py WORLD_SIZE OPTIONS...`; 2 where they cannot be used."""
    try:
        parse(arguments[1:]).checked(int(arguments[0]))
    except BadOption as error:
        sys.stderr.write(f"recipe.py: error: {error}\n")
        sys.exit(2)


class _Parser(argparse.ArgumentParser):
    """Refuses once, not once a rank."""

    def error(self, message: str) -> NoReturn:
        if os.environ.get("RANK", "0") == "0":
            super().error(message)
        sys.exit(2)


def _check(options: Options, world_size: int) -> None:
    for name, least in LEAST.items():
        value = getattr(options, name)
        if value is not None and not value >= least:  # NaN is not, either
            raise BadOption(f"--{name.replace('_', '-')} {value} is not {least} or more")
    if options.lr is not None and not (math.isfinite(options.lr) and options.lr > 0):
        raise BadOption(f"--lr {options.lr} is not a learning rate: give a positive number such as 0.1")
    if options.clip_grad is not None and not options.clip_grad > 0:
        raise BadOption(f"--clip-grad {options.clip_grad} is not a positive norm")
    if not options.bucket_mb > 0:
        raise BadOption(f"--bucket-mb {options.bucket_mb} is not a size: DDP's own is 25")
    if options.batch_per_rank is None and options.batch_size < world_size:
        raise BadOption(f"--batch-size {options.batch_size} is smaller than the {world_size} ranks that share it")
    each = options.samples_a_step(world_size) // world_size
    if each < 1 or each % options.accumulate:
        raise BadOption(
            f"--accumulate {options.accumulate} does not divide the {each} samples that each of {world_size} ranks has a step"
        )
    if options.model == "digitnet" and options.dataset != "mnist":
        raise BadOption("--model digitnet takes grey images of 28x28: use resnet9 or resnet18 for CIFAR-10")
    if options.resume and options.checkpoint_dir is None:
        raise BadOption("--resume needs the --checkpoint-dir to resume from")
    if options.resume and options.hook == "powersgd":
        raise BadOption(
            "--hook powersgd keeps the error of its last step, which a checkpoint does not hold: no --resume with it"
        )
    if options.download and options.data_dir is None:
        raise BadOption("--download needs the --data-dir to put the files into")


if __name__ == "__main__":
    main(sys.argv[1:])
