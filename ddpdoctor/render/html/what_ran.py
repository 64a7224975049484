"""What was run: the command, its versions, hosts and ranks, its start and end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.ranks import JobSize
from ddpdoctor.evidence.run import CommandRun
from ddpdoctor.evidence.torch_build import TorchBuild
from ddpdoctor.grouping import grouped
from ddpdoctor.messages.times import utc
from ddpdoctor.model import group_ranks

SHOWN_HOSTS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOrigin:
    """Which command wrote a report, and when."""

    command: str
    """The command line, without secrets."""
    version: str
    """The version of ddpdoctor that wrote it."""
    at: float
    """When it was written, in seconds since the epoch."""

    @property
    def time(self) -> str:
        """The time in UTC."""
        return utc(self.at)


def run_rows(evidence: Evidence) -> tuple[tuple[str, str], ...]:
    """Name and value of each fact about the command; what is not known is left out."""
    return tuple(_rows(evidence))


def _rows(evidence: Evidence) -> Iterator[tuple[str, str]]:
    run = evidence.one(CommandRun)
    if run is not None:
        yield "command", run.command
    versions = dict(run.versions) if run is not None else {}
    for entry in evidence.per_rank(TorchBuild) or ():
        if entry.value.version:
            versions.setdefault("torch", entry.value.version)
    if versions:
        yield "versions", ", ".join(f"{name} {version}" for name, version in versions.items())
    by_host = grouped((facts.host, facts.rank) for facts in evidence.ranks)
    size = evidence.one(JobSize)
    if evidence.ranks and evidence.launched:
        seen = group_ranks([facts.rank for facts in evidence.ranks])
        yield "ranks", f"{seen} of {size.ranks}" if size is not None else seen
    hosts = [f"{host} ({group_ranks(ranks)})" if evidence.launched else host for host, ranks in by_host.items() if host]
    if hosts:
        more = f" and {len(hosts) - SHOWN_HOSTS} more" if len(hosts) > SHOWN_HOSTS else ""
        yield f"host{'s' if len(hosts) > 1 else ''}", ", ".join(hosts[:SHOWN_HOSTS]) + more
    if run is None:
        return
    yield "start", utc(run.started_at)
    if run.ended_at is not None:
        yield "end", f"{utc(run.ended_at)}, after {_duration(run.ended_at - run.started_at)}"
        if run.exit_code is not None:
            yield "exit code", str(run.exit_code) if run.exit_code >= 0 else f"ended by signal {-run.exit_code}"
    else:
        yield "end", "still running when the evidence was collected"


def _duration(seconds: float) -> str:
    """`52 s`, `7 min 3 s`, `5 h 12 min`."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{max(0.0, seconds):.1f} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
