"""A data set in memory: decoded once, taken in whole batches, augmented on the device."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import cifar10
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - everybody's name for it
from torch.utils.data import TensorDataset
from train import DIGITS, load, name_of

PADDING = 4  # pixels by which a CIFAR image may be shifted, as everywhere since He et al. 2016


@dataclass(frozen=True, slots=True, kw_only=True)
class Pictures:
    """Images of bytes with labels, and what normalises them."""

    name: str
    """`digits`, `mnist`, `the files in DIR`, `cifar10`, `cifar10 (12,000 of it)`, `generated mnist`."""
    training: TensorDataset
    """uint8 images of shape (n, channels, height, width), or (n, height, width) where they are grey, and labels."""
    test: TensorDataset
    """As `training`."""
    mean: tuple[float, ...]
    """The mean of each channel over the data set, where white is 1."""
    deviation: tuple[float, ...]
    """The standard deviation of each channel, where white is 1."""
    shifts: bool
    """Whether training images are shifted and mirrored at random."""

    @property
    def channels(self) -> int:
        """Channels of an image."""
        return len(self.mean)

    def prepared(self, images: Tensor, dtype: torch.dtype, generator: torch.Generator | None = None) -> Tensor:
        """A batch of bytes as normalised numbers; with a `generator` shifted and mirrored at random, where that fits."""
        if images.ndim == 3:
            images = images.unsqueeze(1)
        mean, deviation = (
            torch.tensor(v, dtype=dtype, device=images.device).view(-1, 1, 1) for v in (self.mean, self.deviation)
        )
        scaled = (images.to(dtype) / 255 - mean) / deviation
        return shifted_and_mirrored(scaled, generator) if generator is not None and self.shifts else scaled


def shifted_and_mirrored(images: Tensor, generator: torch.Generator) -> Tensor:
    """Each image of the batch moved by up to four pixels in each direction, and half of them mirrored."""
    count, _, height, width = images.shape
    down, right = torch.randint(0, 2 * PADDING + 1, (2, count), generator=generator)
    mirrored = torch.rand(count, generator=generator) < 0.5
    rows = down[:, None] + torch.arange(height)
    columns = right[:, None] + torch.where(mirrored[:, None], torch.arange(width).flip(0), torch.arange(width))
    padded = F.pad(images, (PADDING,) * 4)
    rows, columns = rows.to(images.device), columns.to(images.device)
    which = torch.arange(count, device=images.device)
    return padded[which[:, None, None], :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def open_pictures(dataset: str, folder: Path | None, *, generated: bool, seed: int) -> Pictures:
    """The data set in `folder`; without one the embedded digits for MNIST, generated images for CIFAR-10.

    Raises:
        BadInput: a file is missing or damaged; the message names it.
    """
    if dataset == "mnist":
        normal = {"mean": (0.1307,), "deviation": (0.3081,), "shifts": False}
        if generated:
            return Pictures(name="generated mnist", **_generated((28, 28), seed), **normal)  # type: ignore[arg-type]
        place = folder or DIGITS
        training, test = load(place, "train"), load(place, "t10k")
        return Pictures(name=name_of(place, training), training=training, test=test, **normal)  # type: ignore[arg-type]
    normal = {"mean": (0.4914, 0.4822, 0.4465), "deviation": (0.2470, 0.2435, 0.2616), "shifts": True}
    if generated or folder is None:
        return Pictures(name="generated cifar10", **_generated((3, 32, 32), seed), **normal)  # type: ignore[arg-type]
    training, test = cifar10.load(folder)
    total = len(training) + len(test)
    name = "cifar10" if total == 60_000 else f"cifar10 ({total:,} of it)"
    return Pictures(name=name, training=training, test=test, **normal)  # type: ignore[arg-type]


def _generated(shape: tuple[int, ...], seed: int) -> dict[str, TensorDataset]:
    """Made-up images that can be learned: one smooth pattern a class, under noise."""
    generator = torch.Generator().manual_seed(seed)
    channels = shape[0] if len(shape) == 3 else 1
    coarse = torch.rand((10, channels, 4, 4), generator=generator)
    patterns = F.interpolate(coarse, size=shape[-2:], mode="bilinear").reshape(10, *shape)
    parts = {}
    for part, count in (("training", 4000), ("test", 1000)):
        labels = torch.arange(count) % 10
        noise = torch.randn((count, *shape), generator=generator) * 0.25
        parts[part] = TensorDataset(((patterns[labels] + noise).clamp(0, 1) * 255).to(torch.uint8), labels)
    return parts
