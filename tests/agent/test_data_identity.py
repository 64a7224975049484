"""What a data set keeps: the same on ranks that were given the same one, whatever its class, and none of its code runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset, Subset, TensorDataset

from ddpdoctor.agent.inside.data_identity import data_digest


class Kept(Dataset[Any]):
    """A data set that keeps `kept`, and whose methods nobody may call."""

    def __init__(self, kept: Any) -> None:
        self.kept = kept

    def __getitem__(self, index: int) -> Any:
        raise AssertionError(index)

    def __len__(self) -> int:
        raise AssertionError

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(name)


def rows(rank: int) -> torch.Tensor:
    return torch.arange(4000.0).view(1000, 4) + rank


OWN = {
    "a folder": lambda rank: Kept(f"shards/{rank}"),
    "files": lambda rank: Kept([f"{number}.tar" for number in range(rank, 400, 2)]),
    "rows": lambda rank: TensorDataset(rows(rank)),
    "rows that are not contiguous": lambda rank: TensorDataset(rows(rank).t()),
    "an array": lambda rank: Kept(np.arange(1000) + rank),
    "a part of one": lambda rank: Subset(TensorDataset(rows(0)), [*range(rank, 100, 2)]),
    "a range of one": lambda rank: Subset(TensorDataset(rows(0)), range(rank, 100, 2)),
    "numbers of another length": lambda rank: Kept([*range(100 + rank)]),
    "one in a list": lambda rank: Kept([Kept("all"), Kept({"of": {"rank": f"shards/{rank}"}})]),
}


@pytest.mark.parametrize("what", OWN)
def test_data_of_each_ranks_own_has_other_digests(what: str) -> None:
    assert data_digest(OWN[what](0)) == data_digest(OWN[what](0)) != ""
    assert data_digest(OWN[what](0)) != data_digest(OWN[what](1))


@pytest.mark.parametrize("kept", [7, None, torch.device("cpu"), object(), rows(0).to("meta"), rows(0).to_sparse()])
def test_nothing_is_known_of_a_data_set_that_keeps_no_data(kept: Any) -> None:
    assert data_digest(Kept(kept)) == ""


def test_one_that_contains_itself_or_very_much_is_read_in_part() -> None:
    ring = Kept(["a"])
    ring.kept.append(ring)
    assert data_digest(ring)
    assert data_digest(Kept([[str(number)] * 9 for number in range(100_000)]))
