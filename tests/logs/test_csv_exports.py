"""Logs that a console of a cloud exported as CSV."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from ddpdoctor.logs.csv_exports import csv_export
from ddpdoctor.logs.log_lines import lines_of
from ddpdoctor.workflows.diagnose import FileKind, _kind_of

RAISED = """\
Traceback (most recent call last):
  File "/app/train.py", line 12, in <module>
    main()
KeyError: "lr"
"""


def export(head: list[str], *rows: list[str]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([head, *rows])
    return text.getvalue()


@pytest.mark.parametrize("one_row", [True, False])
@pytest.mark.parametrize(
    ("head", "time"),
    [
        (["timestamp", "message"], "1764369661000"),
        (["@timestamp", "@message"], "2026-11-28 22:41:01.000"),
        (["@timestamp", "message"], "Nov 28, 2026 @ 22:41:01.123"),
    ],
)
def test_the_lines_of_an_export_are_those_of_the_job(tmp_path: Path, head: list[str], time: str, one_row: bool) -> None:
    path = tmp_path / "log-events.csv"
    messages = [RAISED] if one_row else RAISED.splitlines()
    path.write_text(export(head, [time, "epoch 3, step 7"], *([time, message] for message in messages)))
    assert _kind_of(path, named=True) is FileKind.LOG
    assert [line.text for line in lines_of(path)][1:6] == ["epoch 3, step 7", *RAISED.splitlines()]


@pytest.mark.parametrize("head", ["epoch,loss", "message", "", '"'])
def test_other_tables_are_no_logs(tmp_path: Path, head: str) -> None:
    path = tmp_path / "metrics.csv"
    path.write_text(f"{head}\n1,2.5\n")
    assert csv_export("epoch,loss") is None
    assert _kind_of(path, named=True) is FileKind.OTHER
