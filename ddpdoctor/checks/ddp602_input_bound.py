"""The ranks wait for their data longer than they compute."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from ddpdoctor.analysis.performance.stragglers import fills_processors
from ddpdoctor.evidence import PerRank, by_rank
from ddpdoctor.evidence.process import Stall
from ddpdoctor.evidence.step_times import Looks, Pace, ProcessorTime
from ddpdoctor.messages import samples
from ddpdoctor.model import Finding, Rule, Severity, Where

RULE = Rule(
    code="DDP602",
    name="input-bound",
    summary="ranks spend most of their time waiting for the data loader",
    severity=Severity.WARN,
    shown_by="`ddpdoctor watch` shows most of a step in the data loader, on all ranks",
    remedy="give the DataLoader workers (`num_workers`, at most the CPU cores of the rank), `pin_memory=True` and "
    "`persistent_workers=True`; decode once and cache the result; store many samples per file",
)

LEAST_SHARE = 0.5  # of the time of the iterations: the data, not the model, sets the pace
LEAST_BATCHES = 20
LEAST_SECONDS = 5.0  # of iterations: a job that lasts no longer need not be faster


def check(
    paces: PerRank[Pace], processors: PerRank[ProcessorTime] | None, stall: Stall | None, looks: PerRank[Looks] | None
) -> Iterator[Finding]:
    """One finding with the ranks that wait for data during most of their iterations, and the line that makes the data, if seen.

    A batch is late, too, where the process that makes it gets no processor on a crowded host: that part does not count,
    except on a host whose processors the job itself fills: more work for its input than processors is what this rule names.

    A stalled job gets no finding: the cause of the stall comes first.
    """
    shares = {entry.rank: share for entry in paces if (share := _waiting(entry.value)) is not None}
    crowded = {
        rank: _without_processor(time)
        for ranks in (processors.by_host() if processors is not None else {}).values()
        if not fills_processors(ranks.values())
        for rank, time in ranks.items()
    }
    bound = [rank for rank, share in shares.items() if share - crowded.get(rank, 0.0) >= LEAST_SHARE]
    if bound and stall is None:
        share = median(shares[rank] for rank in bound)
        yield RULE.finding(
            f"ranks wait for batches during {100 * share:.0f} % of the training time",
            ranks=bound,
            where=[*_where(bound, paces, by_rank(looks))],
            share=share,
        )


def _waiting(pace: Pace) -> float | None:
    """The part of this rank's iterations in which it waited for a batch, or None where there are too few."""
    if len(pace.drawn_ns) < LEAST_BATCHES or len(pace.forward_ns) < LEAST_BATCHES:
        return None
    first = pace.asked_ns[1]  # the first batch waits for workers to start
    last = max(pace.drawn_ns[-1], pace.forward_ns[-1])
    if last - first < LEAST_SECONDS * 1e9:
        return None
    waited = sum(drawn - asked for asked, drawn in zip(pace.asked_ns[1:], pace.drawn_ns[1:], strict=True))
    return waited / (last - first)


def _without_processor(processor: ProcessorTime) -> float:
    """The part of the time in which the rank, or its loader's slowest worker, was ready to run and had no processor."""
    return max(processor.ready, processor.workers_ready) / processor.seconds


def _where(bound: Sequence[int], paces: PerRank[Pace], looks: Mapping[int, Looks]) -> Iterator[Where]:
    """The lines that make the data, where they were seen, else that of the forward that waits for them."""
    seen = (samples.seen_often(rank, looks.get(rank)) for rank in bound)
    found = next(filter(None, seen), ())
    line = paces[bound[0]].forward
    yield from found
    if not found and line is not None:
        yield Where.at(line, rank=bound[0], note="the forward that waits for the batches")
