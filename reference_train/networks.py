"""The models: ResNet-18 in its CIFAR form, a ResNet-9 for CPUs, and the DigitNet of train.py."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - everybody's name for it
from train import DigitNet

Norm = Callable[[int], nn.Module]
NORMS: dict[str, Norm] = {
    "batch": nn.BatchNorm2d,
    "sync": nn.SyncBatchNorm,  # statistics over all ranks; GPUs only
    "group": partial(nn.GroupNorm, 8),  # statistics of each sample: the same numbers whatever the number of ranks
}


def build(name: str, *, channels: int, norm: str) -> nn.Module:
    """The model of this name, with ten classes, for square images of `channels` channels."""
    match name:
        case "digitnet":
            return DigitNet()
        case "resnet9":
            return ResNet9(channels, NORMS[norm])
        case "resnet18":
            return ResNet18(channels, NORMS[norm])
        case _:
            raise ValueError(f"no model is called {name!r}")


def convolution(inputs: int, outputs: int, norm: Norm, *, stride: int = 1) -> nn.Sequential:
    """A 3x3 convolution, normalised; the norm has the bias."""
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False), norm(outputs))


class Block(nn.Module):
    """Two convolutions and a way around them (He et al. 2016, "Deep Residual Learning for Image Recognition")."""

    def __init__(self, inputs: int, outputs: int, norm: Norm, *, stride: int = 1) -> None:
        super().__init__()
        self.first = convolution(inputs, outputs, norm, stride=stride)
        self.second = convolution(outputs, outputs, norm)
        self.around: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.around = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False), norm(outputs))

    def forward(self, x: Tensor) -> Tensor:
        """The block's output, of half the size where its stride is 2."""
        return F.relu(self.second(F.relu(self.first(x))) + self.around(x))


class ResNet18(nn.Sequential):
    """ResNet-18 for small images: a 3x3 stem without pooling, four stages of two blocks; 11.2 million parameters."""

    def __init__(self, channels: int, norm: Norm) -> None:
        stages: list[nn.Module] = []
        for inputs, outputs, stride in ((64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2)):
            stages += [Block(inputs, outputs, norm, stride=stride), Block(outputs, outputs, norm)]
        super().__init__(
            convolution(channels, 64, norm),
            nn.ReLU(),
            *stages,
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(512, 10),
        )


class ResNet9(nn.Sequential):
    """Three stages of halved size, two of them with a residual block: 0.6 million parameters, for CPUs."""

    def __init__(self, channels: int, norm: Norm) -> None:
        def halved(inputs: int, outputs: int) -> nn.Sequential:
            return nn.Sequential(convolution(inputs, outputs, norm), nn.ReLU(), nn.MaxPool2d(2))

        super().__init__(
            convolution(channels, 16, norm), nn.ReLU(),
            halved(16, 32), Block(32, 32, norm),
            halved(32, 64),
            halved(64, 128), Block(128, 128, norm),
            nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(128, 10),
        )  # fmt: skip
