"""The report for a spreadsheet: the table of a benchmark, or of any other command its findings, one a row."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence

from ddpdoctor.model import Finding, Measure, Report

FINDING = (
    "code",
    "name",
    "severity",
    "message",
    "ranks",
    "hosts",
    "file",
    "line",
    "function",
    "remedy",
    "explained_by",
)
BENCH = ("collective", "backend", "dtype", "op", "world_size")
SIZE = (
    "bytes", "count", "iterations", "mean", "min", "p50", "p95", "max", "cv", "algbw", "busbw", "wrong", "slowest_rank",
)  # fmt: skip


def render(report: Report) -> str:
    """A header and rows, with the names and units of the JSON report: seconds, bytes, bytes per second."""
    bench = report.measured.get("bench")
    if isinstance(bench, Mapping):
        return _written((*BENCH, *SIZE), _sizes(bench))
    return _written(FINDING, [_finding(finding) for finding in report.findings])


def _sizes(bench: Mapping[str, Measure]) -> list[list[object]]:
    sizes = bench.get("sizes")
    rows = [size for size in sizes if isinstance(size, Mapping)] if isinstance(sizes, Sequence) else []
    return [[*(bench.get(name) for name in BENCH), *(size.get(name) for name in SIZE)] for size in rows]


def _finding(finding: Finding) -> list[object]:
    where = finding.where[0] if finding.where else None
    return [
        finding.code,
        finding.rule.name,
        finding.severity.value,
        finding.message,
        " ".join(map(str, finding.ranks)),
        " ".join(finding.hosts),
        where.file if where else "",
        where.line if where else "",
        where.function if where else "",
        finding.remedy,
        finding.explained_by or "",
    ]


def _written(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([_safe(cell) for cell in row] for row in rows)
    return file.getvalue()


def _safe(cell: object) -> object:
    """`cell`, which no spreadsheet takes for a formula."""
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in {"=", "+", "-", "@", "\t"} else cell
