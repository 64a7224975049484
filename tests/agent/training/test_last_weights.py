"""The weights after the last step are those at the end of the pass over the data, whatever is put in place later."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _BaseDataLoaderIter

from ddpdoctor.agent.inside.overhead_budget import Budget
from ddpdoctor.agent.inside.schema.final_records import LastState, LastWeights
from ddpdoctor.agent.inside.schema.model_records import Table
from tests.agent.followed_rank import FollowedRank

SELDOM = 1000  # steps, between two audits


@pytest.fixture
def loader(monkeypatch: pytest.MonkeyPatch) -> DataLoader[torch.Tensor]:
    for owner, name in (
        (DataLoader, "__iter__"), (_BaseDataLoaderIter, "_next_index"), (_BaseDataLoaderIter, "__next__"),
    ):  # fmt: skip
        monkeypatch.setattr(owner, name, getattr(owner, name))  # put back in the end
    return DataLoader([torch.full((4,), float(number)) for number in range(6)], batch_size=2)  # type: ignore[arg-type]


def ends_with(folder: Path, loader: DataLoader[torch.Tensor], *, stops_early: bool = False) -> tuple[str, str]:
    """Train over the loader once, put an average in place; the fingerprints of the last step's weights, and of what is said."""
    followed = FollowedRank(folder, nn.Linear(4, 2), every=SELDOM)
    followed.batches.install()
    optimizer = torch.optim.SGD(followed.model.parameters(), lr=0.01)
    for number, batch in enumerate(loader):
        followed.step(optimizer, batch)
        if stops_early and number == 1:
            break
    trained = followed.tracker.replica.digests.joined([*followed.model.parameters()])
    for parameter in followed.model.parameters():
        parameter.data.copy_(torch.ones_like(parameter))  # not counted by PyTorch
    followed.tracker.close()
    assert followed.trace.alive
    records = followed.written(LastWeights)
    tables = {table.key: table.digests for table in followed.written(Table)}
    return trained, tables[records[-1].key]


def test_an_average_that_is_put_in_place_after_the_pass_is_not_taken_for_the_last_weights(
    tmp_path: Path, loader: DataLoader[torch.Tensor]
) -> None:
    trained, said = ends_with(tmp_path, loader)
    assert said == trained


def test_without_the_end_of_a_pass_that_was_trained_on_they_are_those_at_the_end(
    tmp_path: Path, loader: DataLoader[torch.Tensor]
) -> None:
    trained, said = ends_with(tmp_path, loader, stops_early=True)
    assert said != trained


def test_what_costs_more_than_its_share_of_the_time_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: clock[0])
    followed = FollowedRank(tmp_path, nn.Linear(4, 2))
    budget, done = Budget(followed.trace, 0, 0.01), list[float]()

    def look() -> None:
        done.append(clock[0])
        clock[0] += 0.5

    for now in (1.0, 3.0, 50.0, 52.0, 102.0):
        clock[0] = now
        budget.spare("look", look)
    assert done == [1.0, 52.0, 102.0]
    followed.trace.close()


def test_the_moment_of_the_look_is_written_down(tmp_path: Path, loader: DataLoader[torch.Tensor]) -> None:
    moments = {}
    for name in ("step", "pass 2", "leave", "end"):
        (folder := tmp_path / name).mkdir()
        followed = FollowedRank(folder, nn.Linear(4, 2), every=1 if name == "step" else SELDOM)
        optimizer = torch.optim.Adam(followed.model.parameters())
        followed.tracker.replica.settings.grouped(optimizer)
        followed.step(optimizer, torch.ones(3, 4))
        followed.tracker.observers.end.pass_over()
        followed.step(optimizer, torch.ones(3, 4))
        if name in ("step", "pass 2"):
            followed.tracker.replica.budget._extras["end of a pass"] = 0.0, 1e9  # the first passes ask nobody for time
            followed.tracker.observers.end.pass_over()
        if name != "end":
            followed.tracker.leaves()
        followed.tracker.close()
        moments[name] = followed.written(LastWeights)[-1].moment, followed.written(LastState)[-1].moment
    assert moments == {
        "step": ("step", "pass 2"), "pass 2": ("pass 2", "pass 2"), "leave": ("leave", "leave"), "end": ("end", "end"),
    }  # fmt: skip
