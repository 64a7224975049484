"""The table of a benchmark fits into the terminal, and a spreadsheet gets all of it."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest

from ddpdoctor.model import Report
from ddpdoctor.render import bench as screen
from ddpdoctor.render import csv as table
from tests.checks.ddp607_collective_slower_than_before import run
from tests.render import REPORT

BENCH = run(1, 4, 30)


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_no_row_is_wider_than_the_terminal(width: int) -> None:
    lines = screen.table(BENCH, width=width)
    assert max(map(len, lines)) <= width
    header = lines[0].split()
    assert {"size", "time", "algbw", "busbw", "#wrong"} <= {*header}
    rest = " ".join(lines[5:])
    assert all(name in header or name in rest for name in screen.HEADER)


def test_a_file_gets_every_column() -> None:
    assert screen.table(BENCH)[0].split() == list(screen.HEADER)


def test_csv_of_a_benchmark_has_one_row_a_size() -> None:
    report = Report(outcomes=(), findings=(), measured={"bench": screen.measured(BENCH)})
    rows = list(csv.DictReader(io.StringIO(table.render(report))))
    assert [(row["bytes"], row["collective"], row["op"], row["world_size"]) for row in rows] == [
        ("1048576", "all_reduce", "sum", "2"),
        ("4194304", "all_reduce", "sum", "2"),
        ("16777216", "all_reduce", "sum", "2"),
    ]
    assert float(rows[0]["mean"]) == 1e-3


def test_csv_of_another_command_has_one_row_a_finding() -> None:
    rows = list(csv.DictReader(io.StringIO(table.render(REPORT))))
    assert [(row["code"], row["severity"], row["explained_by"]) for row in rows] == [
        ("DDP305", "fail", ""),
        ("DDP408", "warn", "DDP305"),
    ]
    assert (rows[0]["ranks"], rows[0]["file"], rows[0]["line"]) == ("0", "train.py", "88")


def test_no_cell_is_a_formula() -> None:
    report = replace(REPORT, findings=(replace(REPORT.findings[0], message="=cmd|' /C calc'!A0"),))
    assert "'=cmd" in table.render(report)
