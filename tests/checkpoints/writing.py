"""Checkpoints as ranks write them, in every format that is read."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import save_file


def contents(*, bump: float = 0.0, statistics: float = 0.0, prefix: str = "", momentum: float = 0.0) -> dict[str, Any]:
    """Model, optimizer and epoch after a step; `bump` is added to one weight, `momentum` to one entry of Adam's state."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.Linear(16, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model(torch.randn(5, 8)).sum().backward()
    optimizer.step()
    with torch.no_grad():
        model[0].weight[5, 2] += bump
        model[1].running_mean += statistics
        optimizer.state[model[2].bias]["exp_avg"][3] += momentum
    weights = {prefix + name: tensor for name, tensor in model.state_dict().items()}
    return {"model": weights, "optimizer": optimizer.state_dict(), "epoch": 3}


def write_pt(path: Path, **changed: Any) -> Path:
    """A file of torch.save."""
    torch.save(contents(**changed), path)
    return path


def write_safetensors(path: Path, **changed: Any) -> Path:
    """The model alone; the format holds nothing else."""
    save_file(contents(**changed)["model"], path)
    return path


def write_dcp(path: Path, epoch: object = 3, **changed: Any) -> Path:
    """A directory of torch.distributed.checkpoint."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says that it saves from a single process
        dcp.save({**contents(**changed), "epoch": epoch}, checkpoint_id=path)
    return path
