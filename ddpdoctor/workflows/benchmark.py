"""Run probes/collective.py on every rank, and keep what it timed; save such runs and read them again."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec

from ddpdoctor.analysis.performance.bandwidth import quantile
from ddpdoctor.atomic_file import write_atomically
from ddpdoctor.errors import UsageError
from ddpdoctor.evidence import Evidence, Missing, RankFacts
from ddpdoctor.evidence.bench import BenchRank, CollectiveBench, EarlierBench, RankTiming, SizeTiming, WrongValues
from ddpdoctor.evidence.links import Links
from ddpdoctor.json_errors import JSON_ERRORS
from ddpdoctor.launch.attendance import WaitingProcess
from ddpdoctor.launch.launch_failure import why_ranks_failed
from ddpdoctor.launch.ranks import our_file, run_ranks
from ddpdoctor.regular_file import read_regular
from ddpdoctor.render.bench import short

SCHEMA = "ddpdoctor.bench/1"
START_SECONDS = 180.0  # ranks that import torch, one after another on a busy machine, and meet
MAX_FILE_BYTES = 64 << 20  # 500 iterations of 30 sizes are 300 KB
KEPT_TIMES = 1001  # of one size: one per tenth of a percent


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchPlan:
    """What to measure."""

    collective: str = "all_reduce"
    """As nccl-tests calls it, such as `all_reduce`."""
    sizes: tuple[int, ...] | None = None
    """The sizes in bytes; None for those that fit the backend."""
    dtype: str = "float32"
    """The data type of the elements."""
    op: str | None = "sum"
    """The reduction; None for a collective that does not reduce."""
    iterations: int | None = None
    """Timed iterations per size; None for as many as the time budget allows."""
    warmup: int = 5
    """Iterations per size before these."""
    budget_seconds: float = 30.0
    """No size is begun after this time."""
    timeout_seconds: float = 60.0
    """The process group's timeout: a collective that hangs fails after it."""


def run_bench(
    plan: BenchPlan,
    *,
    nproc: int | None,
    on_event: Callable[[Mapping[str, Any]], None] | None = None,
    on_wait: Callable[[WaitingProcess], None] | None = None,
) -> tuple[Evidence, bool]:
    """The evidence of one benchmark, and whether this process reports for the job.

    `on_event` sees rank 0's results as they come; `on_wait` is called once a second until the ranks of a launch have met.
    Where the ranks fail in the middle, what was measured until then is kept, and the evidence is undecided with the reason.

    Raises:
        UsageError: `nproc` cannot be started, or is missing, or a launcher has already decided it.
    """
    ranks = run_ranks(
        our_file("probes", "collective.py"),
        [json.dumps(asdict(plan))],
        nproc=nproc,
        deadline_seconds=START_SECONDS + 3 * plan.budget_seconds + plan.timeout_seconds,
        on_result=on_event,
        on_wait=on_wait,
    )
    finished = ranks.ended.code == 0 and not ranks.ended.timed_out
    if not ranks.speaks:
        return Evidence(undecided=() if finished else (why_ranks_failed(ranks.ended, "the benchmark"),)), False
    events = ranks.results
    trying = next((event["size_bytes"] for event in reversed(events) if event["event"] == "trying"), None)
    undecided: tuple[str, ...] = ()
    if not finished or not events or events[-1]["event"] != "end":
        what = "the benchmark" if trying is None else f"the benchmark, at a size of {trying} bytes"
        undecided = (ranks.lacking or why_ranks_failed(ranks.ended, what),)
    started = next((event for event in events if event["event"] == "start"), None)
    if started is None:
        return Evidence(missing=(Missing(kind="CollectiveBench", reason=undecided[0]),), undecided=undecided), True
    bench = _bench(plan, started, events)
    if not bench.sizes and not undecided:
        undecided = (
            f"no size was measured: {'; '.join(bench.left_out)}. Next: give smaller `--sizes`, or a longer `--time-budget`",
        )
    links = next((event["links"] for event in events if event["event"] == "links"), None)
    return Evidence(
        job=(bench,) if links is None else (bench, msgspec.convert(links, Links)),
        ranks=tuple(RankFacts(rank=rank, host=place.host, facts=()) for rank, place in enumerate(bench.ranks)),
        notes=(*crowded_hosts(bench), *(f"left out: {left}" for left in bench.left_out)),
        undecided=undecided,
    ), True


def crowded_hosts(bench: CollectiveBench) -> tuple[str, ...]:
    """A sentence for each host with more ranks than cores: its figures show the scheduler as much as the network."""
    sentences = []
    for host in dict.fromkeys(place.host for place in bench.ranks):
        there = [place for place in bench.ranks if place.host == host]
        if len(there) > there[0].cores:
            sentences.append(
                f"{len(there)} ranks share {there[0].cores} usable cores on {host} (oversubscribed): "
                "the times depend on the scheduler as much as on the links"
            )
    return tuple(sentences)


def save_bench(bench: CollectiveBench, path: Path) -> None:
    """Write the run to `path`, for `--compare`."""
    document = {"schema": SCHEMA, "bench": msgspec.to_builtins(bench)}
    write_atomically(path, msgspec.json.format(msgspec.json.encode(document), indent=1).decode() + "\n")


def load_bench(path: Path) -> EarlierBench:
    """The run that `--save` wrote to `path`.

    Raises:
        UsageError: there is no such file, or it is no saved benchmark; the message says why.
    """
    hint = "make one with `ddpdoctor allreduce-bench --save FILE`"
    try:
        document = msgspec.json.decode(read_regular(path, most=MAX_FILE_BYTES))
        if not isinstance(document, dict) or document.get("schema") != SCHEMA:
            raise UsageError(f'{path} is not a saved benchmark: its "schema" is not {SCHEMA!r}', hint=hint)
        return EarlierBench(source=str(path), bench=msgspec.convert(document.get("bench"), CollectiveBench))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", hint=hint) from None
    except JSON_ERRORS as error:
        raise UsageError(f"{path} is not a saved benchmark: {error}", hint=hint) from None


def size_timing(event: Mapping[str, Any]) -> SizeTiming:
    """One size, from what the probe reports of it: every rank's starts and durations."""
    starts = [starts for starts, _ in event["ranks"]]
    durations = [durations for _, durations in event["ranks"]]
    first = [min(iteration) for iteration in zip(*starts, strict=True)]
    ends = [
        [start + duration for start, duration in zip(*rank, strict=True)]
        for rank in zip(starts, durations, strict=True)
    ]
    everything = sorted(duration for rank in durations for duration in rank)
    last = [max(iteration) for iteration in zip(*ends, strict=True)]
    return SizeTiming(
        size_bytes=event["size_bytes"],
        count=event["count"],
        iterations=len(first),
        mean_seconds=statistics.fmean(everything),
        deviation_seconds=statistics.pstdev(everything),
        seconds=tuple(round(seconds, 9) for seconds in thinned(everything)),
        ranks=tuple(
            RankTiming(
                median_seconds=round(statistics.median(durations[rank]), 9),
                late_seconds=round(statistics.median(_differences(starts[rank], first)), 9),
                finished_last=round(
                    statistics.fmean(end == most for end, most in zip(ends[rank], last, strict=True)), 4
                ),
            )
            for rank in range(len(starts))
        ),
    )


def _bench(plan: BenchPlan, started: Mapping[str, Any], events: Sequence[Mapping[str, Any]]) -> CollectiveBench:
    checks = [event for event in events if event["event"] == "checked"]
    work = next(
        (event["ranks"] for event in events if event["event"] == "own_work"), [((), ())] * len(started["ranks"])
    )
    cores: dict[str, set[int]] = {}
    for rank in started["ranks"]:
        cores.setdefault(rank["boot"], set()).update(rank["cores"])
    return CollectiveBench(
        collective=plan.collective,
        dtype=plan.dtype,
        op=plan.op,
        backend=started["backend"],
        torch=started["torch"],
        ranks=tuple(
            BenchRank(
                host=rank["host"],
                cores=len(cores[rank["boot"]]),
                device=rank["device"],
                work_seconds=tuple(round(each, 6) for each in seconds),
                work_on_cpu=tuple(round(each, 6) for each in on_cpu),
            )
            for rank, (seconds, on_cpu) in zip(started["ranks"], work, strict=True)
        ),
        sizes=tuple(size_timing(event) for event in events if event["event"] == "size"),
        checked=tuple(check["count"] for check in checks),
        wrong=tuple(msgspec.convert(wrong, WrongValues) for check in checks for wrong in check["wrong"]),
        left_out=tuple(
            f"{short(event['size_bytes'])}, because {event['why']}" for event in events if event["event"] == "left_out"
        ),
    )


def thinned(ascending: Sequence[float]) -> Sequence[float]:
    """At most `KEPT_TIMES` of the values, the least and the greatest among them, at equal distances in rank."""
    if len(ascending) <= KEPT_TIMES:
        return ascending
    return [quantile(ascending, place / (KEPT_TIMES - 1)) for place in range(KEPT_TIMES)]


def _differences(values: Sequence[float], others: Sequence[float]) -> list[float]:
    return [value - other for value, other in zip(values, others, strict=True)]
