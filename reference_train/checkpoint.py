"""Checkpoints that survive a kill at any moment, and from which a job goes on as if nothing had happened."""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from train import BadInput

LAST, BEST = "last.pt", "best.pt"


@dataclass(slots=True, kw_only=True)
class Position:
    """How far the job is."""

    epoch: int = 0
    """The epoch that is being trained, 0 for the first."""
    step: int = 0
    """How many of its steps are done."""
    total: int = 0
    """How many steps are done in all epochs."""
    best_loss: float = float("inf")
    """The lowest test loss so far, infinite before the first test."""
    best_epoch: int = 0
    """The epoch of `best_loss`."""
    best: list[tuple[float, int]] = field(default_factory=list)
    """Score, the lower the better, and epoch of each checkpoint that is kept as one of the best, in order."""

    def rank(self, score: float, most: int) -> list[int] | None:
        """Take the current epoch among the `most` best; returns the epochs that it displaces, or None where it is not one.

        Of equal scores the earlier epoch is better.
        """
        others = [(its, epoch) for its, epoch in self.best if epoch != self.epoch]
        ranked = sorted([*others, (score, self.epoch)])
        if (score, self.epoch) not in ranked[:most]:
            return None
        self.best = ranked[:most]
        return [epoch for _, epoch in ranked[most:]]


def best_of(epoch: int) -> str:
    """The file of one of the best checkpoints, where several are kept."""
    return f"best-epoch-{epoch}.pt"


def save(path: Path, state: Mapping[str, Any]) -> None:
    """Write `state` to `path` so that a reader finds the old file or the new one, whole, whatever happens meanwhile.

    Raises:
        BadInput: there is no space or no right to write; the old file is as it was, and nothing half-written stays.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            torch.save(dict(state), file)
            file.flush()
            os.fsync(file.fileno())  # the rename must not reach the disk before the content
        temporary.replace(path)
    except (OSError, RuntimeError) as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        # torch makes a riddle of a full disk: "unexpected pos 4864 vs 4784", a RuntimeError in the context of the OSError
        reason = error.__context__ if isinstance(error.__context__, OSError) else error
        raise BadInput(f"cannot write the checkpoint {path}: {reason}") from None


def clear_leftovers(folder: Path) -> None:
    """Remove what a killed job had begun to write."""
    for leftover in folder.glob(".*.pt.*"):
        leftover.unlink(missing_ok=True)


def read(path: Path, job: Mapping[str, Any]) -> dict[str, Any]:
    """The state in the checkpoint at `path`, which must be one of this `job`.

    Raises:
        BadInput: it is damaged, or of a job with another model, data set, number of ranks or batch.
    """
    try:
        state: Any = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # noqa: BLE001 - a damaged file raises almost anything
        first = str(error).strip().split("\n")[0].split(". ")[0]
        raise BadInput(f"{path} ({path.stat().st_size} bytes) is not a checkpoint of this job: {first}") from None
    theirs = state.get("job") if isinstance(state, dict) else None
    if not isinstance(theirs, dict):
        raise BadInput(f"{path} is not a checkpoint of this job: it does not say of which job it is")
    other = [
        f"{name} {theirs.get(name)!r} instead of {value!r}" for name, value in job.items() if theirs.get(name) != value
    ]
    if other:
        raise BadInput(f"{path} is of another job: {', '.join(other)}")
    return dict(state)


def random_states(device: torch.device) -> list[Any]:
    """The state of every random number generator, on every rank, as tensors and numbers."""
    version, words, gauss = random.getstate()
    name, keys, position, has_gauss, cached = np.random.get_state(legacy=True)
    mine = {
        "python": [version, list(words), gauss],
        "numpy": [name, torch.from_numpy(np.asarray(keys, np.int64)), position, has_gauss, cached],
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state(device) if device.type == "cuda" else None,
    }
    everyone: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, mine)
    return everyone


def set_random_state(state: Mapping[str, Any], device: torch.device) -> None:
    """Put every generator of this rank into a state from `random_states`."""
    version, words, gauss = state["python"]
    random.setstate((version, tuple(words), gauss))
    name, keys, *rest = state["numpy"]
    np.random.set_state((name, keys.numpy().astype(np.uint32), *rest))
    torch.set_rng_state(state["torch"])
    if state["cuda"] is not None:
        torch.cuda.set_rng_state(state["cuda"], device)
