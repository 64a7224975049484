"""What is known of a sampler: its part, its epoch, and the lines that made it and told it that."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import BatchSampler, DataLoader, Dataset, Sampler
from torch.utils.data.distributed import DistributedSampler

from ddpdoctor.agent.inside.data.sampler_shares import SamplerShares
from ddpdoctor.agent.inside.trace_writer import TraceWriter


class Numbers(Dataset[int]):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> int:
        return index


class Own(Sampler[int]):
    """A sampler of the program's own, which has no hash."""

    rank, num_replicas, epoch = 1, 2, 3
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return self is other

    def __iter__(self) -> Any:
        return iter(range(4))


@pytest.fixture
def shares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SamplerShares:
    """They follow samplers until the test is over."""
    for name in ("__init__", "set_epoch"):
        monkeypatch.setattr(DistributedSampler, name, getattr(DistributedSampler, name))
    found = SamplerShares()

    class Trace:
        def observing(self, observer: Callable[..., None]) -> Callable[..., None]:
            return observer

    trace: Any = Trace()
    assert hasattr(TraceWriter, "observing")
    found.install(trace)
    return found


def test_where_a_sampler_of_the_program_draws_is_known(shares: SamplerShares) -> None:
    line = Own.__iter__.__code__.co_firstlineno
    own = DataLoader(Numbers(), sampler=Own())
    batches = DataLoader(Numbers(), batch_sampler=BatchSampler(Own(), 2, drop_last=False))
    assert shares.draws(own) == shares.draws(batches) == (__file__, line, "__iter__")
    assert shares.draws(DataLoader(Numbers(), shuffle=True)) is None


def test_the_part_the_epoch_and_both_lines_are_known(shares: SamplerShares) -> None:
    sampler = DistributedSampler(Numbers(), num_replicas=3, rank=2, seed=5)
    first = shares.of(DataLoader(Numbers(), sampler=sampler))
    assert first is not None
    assert first[:3] == (2, 3, 0)
    assert first.made is not None
    assert first.told is None
    assert first.seed == 5

    sampler.set_epoch(4)
    told = shares.of(DataLoader(Numbers(), batch_sampler=BatchSampler(sampler, 2, drop_last=False)))
    assert told is not None
    assert told.epoch == 4
    assert told.told is not None
    assert told.told.function == "test_the_part_the_epoch_and_both_lines_are_known"


def test_a_sampler_that_divides_nothing_has_no_part(shares: SamplerShares) -> None:
    assert shares.of(DataLoader(Numbers(), shuffle=True)) is None


def test_a_sampler_of_the_programs_own_has_its_part_without_lines(shares: SamplerShares) -> None:
    assert shares.of(DataLoader(Numbers(), sampler=Own())) == (1, 2, 3, None, None, None)


@pytest.mark.parametrize("share_of", ["sampler", "batch_sampler"])
def test_a_subclass_without_a_hash_has_its_part_and_both_lines(shares: SamplerShares, share_of: str) -> None:
    class Comparable(DistributedSampler[int]):
        def __eq__(self, other: object) -> bool:
            raise NotImplementedError

        __hash__ = None  # type: ignore[assignment]

    sampler = Comparable(Numbers(), num_replicas=3, rank=2)
    sampler.set_epoch(4)
    given: Any = sampler if share_of == "sampler" else BatchSampler(sampler, 2, drop_last=False)
    share = shares.of(DataLoader(Numbers(), **{share_of: given}))
    assert share is not None
    assert share[:3] == (2, 3, 4)
    assert None not in (share.made, share.told)


@pytest.mark.parametrize("name", ["rank", "epoch", "__hash__"])
def test_what_a_sampler_raises_does_not_reach_the_agent(shares: SamplerShares, name: str) -> None:
    def fail(_self: Any) -> int:
        raise RuntimeError

    sampler: Any = type("Raising", (Own,), {name: fail if name == "__hash__" else property(fail)})()
    shares._was_told(sampler)
    share = shares.of(DataLoader(Numbers(), sampler=sampler))
    assert (share is None) == (name != "__hash__")


def test_a_sampler_that_is_gone_leaves_nothing_to_the_next(shares: SamplerShares) -> None:
    sampler = DistributedSampler(Numbers(), num_replicas=3, rank=2)
    sampler.set_epoch(1)
    del sampler
    gc.collect()
    assert (len(shares._made), len(shares._told)) == (0, 0)
