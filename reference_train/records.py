"""What rank 0 keeps of a run beside the log: TensorBoard's scalars, and a curve as a picture."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

from torch import Tensor
from train import BadInput, Progress


class Records(Progress):
    """train.py's progress, with TensorBoard and a curve."""

    def __init__(self, steps: int, log: Path | None, *, done: int, tensorboard: Path | None, plot: Path | None) -> None:
        super().__init__(steps, log, done=done)
        self._plot = plot if self._speaks else None
        self._tensorboard = tensorboard if self._speaks else None
        self._curve: list[tuple[float, float, float]] = []
        self._board: Any = None

    def open(self) -> None:
        """Make sure, before any training, that everything asked for can be written.

        Raises:
            BadInput: a package is missing or a place cannot be written.
        """
        super().open()
        if self._tensorboard is not None:
            self._board = board(self._tensorboard)
        if self._plot is not None:
            if importlib.util.find_spec("matplotlib") is None:
                raise BadInput("--plot needs the package matplotlib: pip install 'ddpdoctor[plot]'")
            if not os.access(self._plot.parent, os.W_OK):
                raise BadInput(f"cannot write {self._plot}: {self._plot.parent} is no directory that can be written to")

    def step(self, epoch: int, loss: Tensor, seen: int) -> None:
        """One step more."""
        super().step(epoch, loss, seen)
        if self._board is not None and self._done % 10 == 0:
            self._board.add_scalar("train/loss", loss.item(), self._done)

    def say(self, event: str, **facts: Any) -> None:  # noqa: ANN401 - whatever JSON holds
        """Log an event; an epoch is a point of the curve."""
        super().say(event, **facts)
        if event == "epoch":
            self._curve.append((facts["epoch"], facts["accuracy"], facts["test_loss"]))
            if self._board is not None:
                self._board.add_scalar("test/accuracy", facts["accuracy"], self._done)
                self._board.add_scalar("test/loss", facts["test_loss"], self._done)

    def close(self) -> None:
        """Write what is still to be written."""
        if self._board is not None:
            self._board.close()
        if self._plot is not None and self._curve:
            self._draw(self._plot)

    def _draw(self, path: Path) -> None:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7, 4), layout="constrained")
        epochs, accuracies, losses = zip(*self._curve, strict=True)
        left = figure.subplots()
        right = left.twinx()
        left.plot(epochs, accuracies, marker="o", color="tab:blue")
        right.plot(epochs, losses, marker=".", color="tab:orange")
        left.set(xlabel="epoch", ylabel="test accuracy")
        right.set(ylabel="test loss")
        try:
            figure.savefig(path)
        except (OSError, ValueError) as error:  # an ending that matplotlib does not know is a ValueError
            raise BadInput(f"cannot write {path}: {error}") from None


def board(folder: Path) -> Any:  # noqa: ANN401 - torch does not type its SummaryWriter
    """What writes scalars for TensorBoard into `folder`.

    Raises:
        BadInput: the package is not installed, or the folder cannot be written.
    """
    try:
        from torch.utils.tensorboard import SummaryWriter

        return SummaryWriter(str(folder))
    except ImportError:
        raise BadInput("--tensorboard needs the package tensorboard: pip install 'ddpdoctor[tensorboard]'") from None
    except OSError as error:
        raise BadInput(f"cannot write into --tensorboard {folder}: {error.strerror}") from None
