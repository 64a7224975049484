"""What a data set keeps: the same on ranks that were given the same one, whatever its class, and none of its code runs."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset, Subset, TensorDataset

from ddpdoctor.agent.inside.data.data_identity import data_digest


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
    "a dict of files": lambda rank: Kept({number: f"shards/{rank}/{number}" for number in range(100)}),
    "a folder": lambda rank: Kept(f"shards/{rank}"),
    "files": lambda rank: Kept([f"{number}.tar" for number in range(rank, 400, 2)]),
    "rows": lambda rank: TensorDataset(rows(rank)),
    "rows that are not contiguous": lambda rank: TensorDataset(rows(rank).t()),
    "an array": lambda rank: Kept(np.arange(1000) + rank),
    "a part of one": lambda rank: Subset(TensorDataset(rows(0)), [*range(rank, 100, 2)]),
    "a range of one": lambda rank: Subset(TensorDataset(rows(0)), range(rank, 100, 2)),
    "numbers of another length": lambda rank: Kept([*range(100 + rank)]),
    "one in a list": lambda rank: Kept([Kept("all"), Kept({"of": {"files": [f"shards/{rank}", "all"]}})]),
}


@pytest.mark.parametrize("what", OWN)
def test_data_of_each_ranks_own_has_other_digests(what: str) -> None:
    assert data_digest(OWN[what](0)) == data_digest(OWN[what](0)) != ""
    assert data_digest(OWN[what](0)) != data_digest(OWN[what](1))


@pytest.mark.parametrize(
    "kept",
    [
        7,
        None,
        "cuda:1",
        {"device": "cuda:1", "log": "run1"},
        ["cuda:1"],
        torch.device("cpu"),
        object(),
        rows(0).to("meta"),
        rows(0).to_sparse(),
    ],
)
def test_nothing_is_known_of_a_data_set_that_keeps_no_data(kept: Any) -> None:
    assert data_digest(Kept(kept)) == ""


def test_one_that_contains_itself_or_very_much_is_read_in_part() -> None:
    ring = Kept(["a"])
    ring.kept.append(ring)
    assert data_digest(ring)
    assert data_digest(Kept([[str(number)] * 9 for number in range(100_000)]))


def test_what_a_rank_keeps_of_itself_beside_its_data_is_no_other_data() -> None:
    ranks = []
    for rank in range(2):
        data = Kept([rows(0), *map(str, range(90))])
        data.device, data.settings = f"cuda:{rank}", {"log": f"run{rank}.txt", "rank": rank}
        ranks.append(data_digest(data))
    assert ranks[0] == ranks[1] != ""


def test_a_mapped_file_is_known_by_its_name_and_place_and_never_read(tmp_path: Path) -> None:
    files = [tmp_path / str(rank) for rank in range(2)]
    for file in files:
        np.arange(4000.0).tofile(file)
    mapped = [np.memmap(file, mode="r", dtype=np.float64) for file in files]
    for file in files:
        file.write_bytes(b"")  # to read one now would end the process with SIGBUS
    digests = [data_digest(Kept(one)) for one in [*mapped, mapped[0][10:], np.asarray(mapped[0])[20:]]]
    assert len(set(digests)) == 4
    assert data_digest(Kept(np.memmap.__getitem__(mapped[0], slice(10, None)))) == digests[2]


def test_a_dict_of_many_entries_is_walked_through_in_part() -> None:
    many, fewer = (dict.fromkeys(range(count), "row") for count in (1_000_000, 999_999))
    tracemalloc.start()
    try:
        assert data_digest(Kept(many)) != data_digest(Kept(fewer))
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
