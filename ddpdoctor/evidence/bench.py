"""What a benchmark of one collective measured: how long it took at each size, and whether the values were right."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchRank:
    """Where one rank ran: `cores` are those that the ranks on its host may use together; `device` is `cpu` or its GPU's name.

    `work_seconds` says how long it took in each round of a work of its own that is the same for all ranks, `work_on_cpu`
    for how many of these seconds it had a processor. Both are empty where that was not measured.
    """

    host: str
    cores: int
    device: str
    work_seconds: tuple[float, ...] = ()
    work_on_cpu: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RankTiming:
    """One rank at one size, by medians over the iterations: its own time, and how late after the first rank it arrives.

    `finished_last` is the share of the iterations in which it was the last to finish.
    """

    median_seconds: float
    late_seconds: float
    finished_last: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeTiming:
    """One size. `seconds` holds the times of all iterations of all ranks in ascending order, thinned to 1,001 quantiles.

    `size_bytes` and `count` are what nccl-tests calls size and count; mean and deviation are those of all times.
    """

    size_bytes: int
    count: int
    iterations: int
    mean_seconds: float
    deviation_seconds: float
    seconds: tuple[float, ...]
    ranks: tuple[RankTiming, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongValues:
    """A result that is not what the inputs make it: on one rank, `elements` of `received` differ, the first at `index`."""

    count: int
    rank: int
    elements: int
    received: int
    index: int
    expected: str
    got: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveBench:
    """The benchmark of one collective over one job.

    `checked` holds every count whose values were compared, on buffers of their own; `wrong` is empty where all were
    exact. `left_out` says which sizes were not measured, and why.
    """

    collective: str
    dtype: str
    op: str | None
    backend: str
    torch: str
    ranks: tuple[BenchRank, ...]
    sizes: tuple[SizeTiming, ...] = ()
    checked: tuple[int, ...] = ()
    wrong: tuple[WrongValues, ...] = ()
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierBench:
    """A benchmark saved before, that this one is compared with; `source` is its file."""

    source: str
    bench: CollectiveBench


KINDS = (CollectiveBench, EarlierBench)
