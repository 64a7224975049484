"""A job may have set a default device: what the agent makes without the job's knowledge is on the CPU all the same."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from ddpdoctor.agent.inside.schema.model_records import Table
from ddpdoctor.agent.inside.schema.step_records import Step
from tests.agent.followed_rank import FollowedRank


class Net(nn.Module):
    """Parameters large and small, buffers, an odd dtype, and one that is sampled."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 3000)
        self.narrow = nn.Parameter(torch.zeros(5, dtype=torch.bfloat16))

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return self.last(self.norm(self.first(batch)).relu()) + self.narrow.sum()


def followed(folder: Path, device: str) -> tuple[FollowedRank, list[object]]:
    folder.mkdir()
    torch.manual_seed(0)
    module, batch = Net(), torch.ones(2, 4)
    with torch.device(device):  # as torch.set_default_device has it
        rank = FollowedRank(folder, module)
        optimizer = torch.optim.AdamW(module.parameters(), fused=False)
        for _ in range(2):
            rank.step(optimizer, batch)
        rank.tracker.close()
    tables, steps = rank.written(Table), rank.written(Step)
    return rank, [*tables, *((step.stepping.state, step.gradients, step.buffers, step.after) for step in steps)]


def test_a_default_device_changes_nothing_that_is_written(tmp_path: Path) -> None:
    rank, on_cpu = followed(tmp_path / "cpu", "cpu")
    assert len(on_cpu) > 4
    other, elsewhere = followed(tmp_path / "meta", "meta")
    assert elsewhere == on_cpu
    assert not list((tmp_path / "meta").glob("*.gave-up"))
    assert rank.trace.alive is other.trace.alive
