"""What collectors, loggers, mails and debuggers put around a line is taken off, and nothing that a rank wrote is lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.logs.log_lines import lines_of
from ddpdoctor.workflows.diagnose import gather

OUT_OF_MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB."
TRACEBACK = (
    "Traceback (most recent call last):\n"
    '  File "/job/train.py", line 47, in train\n'
    "    out = model(batch)\n"
    "          ^^^^^^^^^^^^\n"
)
PROGRESS = json.dumps({"message": "cleaning up"})


def _texts(tmp_path: Path, *lines: str) -> list[str]:
    log = tmp_path / "job.log"
    log.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return [line.text for line in lines_of(log)][:-1]  # behind the last line's end


def _first(tmp_path: Path, *lines: str) -> tuple[str, str, str]:
    """The code of the headline, its sentence and its place."""
    log = tmp_path / "job.log"
    log.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    first = diagnose(gather([log])).findings[0]
    return first.code, first.message, str(first.where[0].line if first.where else "")


@pytest.mark.parametrize("key", ["log", "message", "textPayload"])
def test_a_traceback_in_one_json_entry_is_read_and_ends_with_it(tmp_path: Path, key: str) -> None:
    entry = json.dumps({key: f"{TRACEBACK}RuntimeError: boom\n", "severity": "ERROR"})
    code, message, line = _first(tmp_path, entry, PROGRESS)
    assert (code, line) == ("DDP401", "47")
    assert "RuntimeError: boom" in message
    assert "cleaning up" not in message


def test_a_traceback_of_which_each_line_is_a_json_entry_is_read(tmp_path: Path) -> None:
    lines = f"{TRACEBACK}RuntimeError: boom".split("\n")
    code, message, line = _first(tmp_path, *(json.dumps({"log": f"{each}\n"}) for each in lines))
    assert (code, line) == ("DDP401", "47")
    assert "RuntimeError: boom" in message


@pytest.mark.parametrize(
    "entry",
    [
        {"message": "training failed", "exc_info": TRACEBACK + OUT_OF_MEMORY},  # python-json-logger
        {"event": "training failed", "level": "error", "exception": TRACEBACK + OUT_OF_MEMORY},  # structlog
        {"message": "training failed", "stack_trace": TRACEBACK + OUT_OF_MEMORY},  # logstash
        {"message": "training failed", "details": TRACEBACK + OUT_OF_MEMORY},
        {"message": "training failed", "error": OUT_OF_MEMORY},
        {"message": "training failed", "failure": {"stack_trace": TRACEBACK + OUT_OF_MEMORY}},  # Elastic
        {"severity": "ERROR", "jsonPayload": {"message": TRACEBACK + OUT_OF_MEMORY}},  # Google Cloud
        {"stream": "stderr", "log": json.dumps({"message": "failed", "exc_info": TRACEBACK + OUT_OF_MEMORY}) + "\n"},
    ],
    ids=lambda entry: next(reversed(entry)),
)
def test_an_exception_beside_the_message_of_a_json_entry_is_read(
    tmp_path: Path, entry: dict[str, str | dict[str, str]]
) -> None:
    """Regression: the message alone was kept, and the cause was lost."""
    assert _first(tmp_path, json.dumps(entry), PROGRESS)[0] == "DDP407"


def test_an_exception_that_the_message_holds_already_is_read_once(tmp_path: Path) -> None:
    entry = json.dumps({"message": f"failed: {OUT_OF_MEMORY}", "error": OUT_OF_MEMORY})
    assert _texts(tmp_path, entry) == [f"failed: {OUT_OF_MEMORY}"]


@pytest.mark.parametrize(
    "line", ['{"step": 3, "loss": 0.25}', '{"message": 3}', '{"message": "cut', "{'loss': 1.42, 'epoch': 0.05}"]
)
def test_json_without_a_message_stays_as_it_is(tmp_path: Path, line: str) -> None:
    assert _texts(tmp_path, line) == [line]


@pytest.mark.parametrize("line", ["> /job/train.py(47)train()", ">/job/train.py(47)train()", ">>> import torch"])
def test_lines_of_a_debugger_and_of_a_prompt_are_no_quotes(tmp_path: Path, line: str) -> None:
    """Regression: the lookahead gave back a space, and the mark was taken off in any case."""
    assert _texts(tmp_path, line) == [line]


@pytest.mark.parametrize("mark", ["> ", "> > ", ">>> "])
def test_a_quoted_traceback_is_read_without_its_marks(tmp_path: Path, mark: str) -> None:
    lines = f"{TRACEBACK}RuntimeError: boom".split("\n")
    assert _texts(tmp_path, *(mark + line for line in lines)) == lines


def test_half_of_a_surrogate_pair_in_a_json_entry_is_replaced(tmp_path: Path) -> None:
    (text,) = _texts(tmp_path, r'{"log": "RuntimeError: boom \ud800\r\n"}')
    assert text == "RuntimeError: boom ?"


def test_a_line_in_a_console_s_table_of_times_has_the_rank_that_its_watchdog_names(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text("  | 2025-03-04T08:11:02.101Z | [PG 0 Rank 5] Process group watchdog thread terminated\n")
    first = next(lines_of(log))
    assert (first.rank, first.text) == (5, "[PG 0 Rank 5] Process group watchdog thread terminated")
