"""How a job under `watch` is getting on, as text for Prometheus (the textfile collector of node_exporter reads it)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from ddpdoctor.evidence.rank_status import RankStatus
from ddpdoctor.model import Report, Severity


def render(statuses: Sequence[RankStatus], report: Report | None, *, idle: float, exit_code: int | None) -> str:
    """One document: metrics by rank, seconds since progress of the job, and the latest verdict, None before there is one."""
    return "".join(f"{line}\n" for line in _lines(statuses, report, idle, exit_code))


def _lines(statuses: Sequence[RankStatus], report: Report | None, idle: float, exit_code: int | None) -> Iterator[str]:
    yield from _by_rank("steps_total", "counter", "Optimizer steps.", statuses, lambda one: one.steps)
    yield from _by_rank(
        "rank_seconds_since_progress", "gauge", "Seconds since the rank completed a call, a forward or a step.",
        statuses, lambda one: one.idle_seconds,
    )  # fmt: skip
    yield from _by_rank(
        "lateness_seconds", "gauge", "Median seconds after the first rank of the host into the latest collectives.",
        statuses, lambda one: one.late_seconds,
    )  # fmt: skip
    yield from _by_rank("cpu_share", "gauge", "CPU seconds per second.", statuses, lambda one: one.cpu_share)
    yield from _by_rank("memory_bytes", "gauge", "Resident memory.", statuses, lambda one: one.memory_bytes)
    yield from _metric("seconds_since_progress", "gauge", "Seconds since the job made progress.", [("", idle)])
    running = 1 if exit_code is None else 0
    yield from _metric("job_running", "gauge", "1 while the command runs.", [("", running)])
    if exit_code is not None:
        yield from _metric("job_exit_code", "gauge", "Exit code of the command, -N for signal N.", [("", exit_code)])
    counts = [
        (f'{{severity="{each.value}"}}', sum(found.severity is each for found in report.findings) if report else 0)
        for each in Severity
    ]
    yield from _metric("findings", "gauge", "Findings of the latest verdict.", counts)
    verdicts = [
        (_labels(code=found.code, name=found.rule.name, severity=found.severity.value), 1)
        for found in ((report.findings[:1]) if report is not None else ())
    ]
    yield from _metric("verdict", "gauge", "The first finding of the latest verdict.", verdicts)


def _by_rank(
    name: str, kind: str, about: str, statuses: Sequence[RankStatus], value: Callable[[RankStatus], float | None]
) -> Iterator[str]:
    known = [(_labels(rank=str(status.rank), host=status.host), value(status)) for status in statuses]
    yield from _metric(name, kind, about, [(labels, number) for labels, number in known if number is not None])


def _metric(name: str, kind: str, about: str, samples: Iterable[tuple[str, float]]) -> Iterator[str]:
    found = [f"ddpdoctor_{name}{labels} {number:.10g}" for labels, number in samples]
    if found:
        yield f"# HELP ddpdoctor_{name} {about}"
        yield f"# TYPE ddpdoctor_{name} {kind}"
        yield from found


def _labels(**labels: str) -> str:
    escaped = (
        (name, text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")) for name, text in labels.items()
    )
    return "{" + ",".join(f'{name}="{text}"' for name, text in escaped) + "}"
