"""N ranks take together what one process takes, batch by batch."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as some
from shares import shares

SIZES = {"samples": some.integers(1, 300), "world_size": some.integers(1, 7), "each": some.integers(1, 40)}


@given(**SIZES, epoch=some.integers(0, 3))
def test_every_sample_is_taken_exactly_once_and_the_ranks_make_the_same_steps(
    samples: int, world_size: int, each: int, epoch: int
) -> None:
    ranks = [
        shares(samples, epoch=epoch, seed=1, rank=rank, world_size=world_size, each=each, pad=False)
        for rank in range(world_size)
    ]
    assert len({len(rank) for rank in ranks}) == 1
    taken = [index for rank in ranks for share in rank for index in share.indices]
    assert sorted(taken) == list(range(samples))
    for parts in zip(*ranks, strict=True):
        assert {part.everyone for part in parts} == {sum(len(part.indices) for part in parts)}


@given(**SIZES)
def test_a_step_of_all_ranks_is_a_step_of_one(samples: int, world_size: int, each: int) -> None:
    def steps(ranks: int, size: int) -> list[set[int]]:
        everybody = [
            shares(samples, epoch=2, seed=5, rank=rank, world_size=ranks, each=size, pad=False) for rank in range(ranks)
        ]
        return [{index for part in parts for index in part.indices} for parts in zip(*everybody, strict=True)]

    assert steps(world_size, each) == steps(1, each * world_size)


@given(**SIZES)
def test_padded_ranks_have_equally_many(samples: int, world_size: int, each: int) -> None:
    ranks = [
        shares(samples, epoch=0, seed=1, rank=rank, world_size=world_size, each=each, pad=True)
        for rank in range(world_size)
    ]
    assert len({sum(len(share.indices) for share in rank) for rank in ranks}) == 1
    assert {index for rank in ranks for share in rank for index in share.indices} == set(range(samples))


def test_epochs_differ_in_their_order() -> None:
    first, second = (
        shares(100, epoch=epoch, seed=1, rank=0, world_size=2, each=10, pad=True)[0].indices for epoch in (0, 1)
    )
    assert first != second
