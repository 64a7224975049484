"""What a benchmark of one collective measured: how long it took at each size, and whether the values were right."""

from __future__ import annotations

from dataclasses import dataclass

from ddpdoctor.evidence.bounds import need, need_places


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchRank:
    """Where one rank of a benchmark ran."""

    host: str
    """The host's name."""
    cores: int
    """The cores that the ranks on its host may use together."""
    device: str
    """`cpu`, or the name of its GPU."""
    work_seconds: tuple[float, ...] = ()
    """Seconds that a computation took in each round, the same on every rank; empty where it was not measured."""
    work_on_cpu: tuple[float, ...] = ()
    """How many of these seconds the rank had a processor; empty where it was not measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankTiming:
    """One rank at one size, by medians over the iterations."""

    median_seconds: float
    """The time of one collective."""
    late_seconds: float
    """How late the rank entered the collective, after the first one."""
    finished_last: float
    """The share of the iterations in which it was the last to finish."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeTiming:
    """One size of a benchmark."""

    size_bytes: int
    """What nccl-tests calls size."""
    count: int
    """What nccl-tests calls count: elements."""
    iterations: int
    """How often it was timed on each rank."""
    mean_seconds: float
    """The mean of all times of all ranks."""
    deviation_seconds: float
    """The standard deviation of all times of all ranks."""
    seconds: tuple[float, ...]
    """All times of all ranks in ascending order, thinned to 1,001 quantiles."""
    ranks: tuple[RankTiming, ...]
    """One timing per rank, in order of rank."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongValues:
    """A result that is not what the inputs make it."""

    count: int
    """The number of elements of the collective."""
    rank: int
    """The rank that received it."""
    elements: int
    """How many elements are wrong."""
    received: int
    """How many elements the rank received."""
    index: int
    """The index of the first wrong element."""
    expected: str
    """Its right value."""
    got: str
    """The value that it has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveBench:
    """The benchmark of one collective over one job."""

    collective: str
    """Such as `all_reduce`."""
    dtype: str
    """Such as `float32`."""
    op: str | None
    """The reduce operation, None where the collective has none."""
    backend: str
    """`nccl` or `gloo`."""
    torch: str
    """The version of torch."""
    ranks: tuple[BenchRank, ...]
    """One entry per rank, in order of rank."""
    sizes: tuple[SizeTiming, ...] = ()
    """The sizes that were measured, in ascending order."""
    checked: tuple[int, ...] = ()
    """Every count whose values were compared, on buffers of their own."""
    wrong: tuple[WrongValues, ...] = ()
    """Results that are wrong; empty where all values were exact."""
    left_out: tuple[str, ...] = ()
    """Which sizes were not measured and why, one sentence each."""

    def __post_init__(self) -> None:
        need(bool(self.ranks), "a benchmark has no rank")
        need_places((each.rank for each in self.wrong), self.ranks, "wrong")
        need(len({len(rank.work_seconds) for rank in self.ranks}) == 1, "the ranks did their own work unequally often")
        for size in self.sizes:
            need(len(size.ranks) == len(self.ranks), "a size was not timed on every rank")
            need(bool(size.seconds) and size.iterations > 0, "a size was not timed")
            need(size.mean_seconds > 0 and min(size.seconds) > 0, "a size took no time")


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierBench:
    """A benchmark that was saved before, to compare with."""

    source: str
    """The file that it was read from, as it was given."""
    bench: CollectiveBench
    """What it measured."""


KINDS = {
    CollectiveBench: "benchmark of a collective",
    EarlierBench: "saved benchmark to compare with",
}
