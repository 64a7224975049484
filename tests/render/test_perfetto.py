"""Perfetto's own trace processor reads the trace and answers questions about it.

Its Python package downloads the program at first use, which a test must not: `trace_processor_shell` is on the path, or
`TRACE_PROCESSOR_SHELL` names it. tests/render/test_chrome_trace.py checks the same trace by the rules of the published format.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from ddpdoctor.render import chrome_trace
from tests.flight_records import Did, flights, record
from tests.waiting import PROGRAM_SECONDS

SHELL = shutil.which(os.environ.get("TRACE_PROCESSOR_SHELL", "trace_processor_shell"))
SECONDS_LATE, CALLS = 0.030, 20


ANSWERS = {
    "select count(*) from slice where name = 'all_reduce'": 4 * CALLS,
    "select count(*) from slice where name = 'waits for rank 2'": 3 * CALLS,
    "select count(distinct dur) from slice where name = 'waits for rank 2'": 1,
    "select min(dur) from slice where name = 'waits for rank 2'": int(SECONDS_LATE * 1e9),
    "select count(*) from process where name glob 'rank *'": 4,
    "select count(*) from thread where name glob 'default group*'": 4,
    "select count(*) from flow": 3 * CALLS,
    "select value from stats where name = 'json_parser_failure'": 0,
}


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Rank 2 of 4 makes every call 30 ms late."""
    plain = record([Did("all_reduce")] * CALLS)
    late_ns = int(SECONDS_LATE * 1e9)
    ended = tuple(made + late_ns + 5_000_000 for made in plain.created_ns)
    on_time = replace(plain, completed_ns=ended)
    late = replace(on_time, created_ns=tuple(made + late_ns for made in plain.created_ns))
    file = tmp_path / "out.json"
    file.write_text("".join(chrome_trace.chunks(flights(on_time, on_time, late, on_time))))
    return file


@pytest.mark.skipif(
    SHELL is None, reason="trace_processor_shell is not here: get it from Perfetto, or set TRACE_PROCESSOR_SHELL"
)
def test_it_answers_in_sql(trace: Path, tmp_path: Path) -> None:
    assert SHELL is not None
    asked = tmp_path / "question.sql"
    for question, answer in ANSWERS.items():
        asked.write_text(f"select ({question}) as answer")
        ended = subprocess.run(
            [SHELL, "-q", asked, trace], capture_output=True, text=True, check=True, timeout=PROGRAM_SECONDS
        )
        assert ended.stdout.split() == ['"answer"', str(answer)], question
