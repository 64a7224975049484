"""Logs that are large or hostile: what matters is found, at its line, in bounded time and memory."""

from __future__ import annotations

import errno
import os
import random
import time
from pathlib import Path

import pytest

from ddpdoctor.catalogue import error_table
from ddpdoctor.cli import run
from ddpdoctor.engine import diagnose
from ddpdoctor.evidence.job_log import JobLog
from ddpdoctor.logs import raw_lines as raw_lines_module
from ddpdoctor.logs.failure_signs import shows_a_failure
from ddpdoctor.logs.job_log import read_logs
from ddpdoctor.logs.raw_lines import MAX_PER_FORM, SMALL_BYTES, raw_lines
from ddpdoctor.render import text
from ddpdoctor.workflows.diagnose import gather

RAISED = (
    '[rank{0}]: Traceback (most recent call last):\n[rank{0}]:   File "/w/t.py", line 9, in f\n[rank{0}]: KeyError: 7\n'
)
LINEAR_SECONDS = 1.0  # for 8,192 characters; a quadratic search of them takes minutes


def steps(number: int) -> str:
    return "".join(f"[rank{n % 64}]: step {n // 64} loss {n / 7:.4f} tokens/s {n * 31 % 9973}\n" for n in range(number))


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """A log that is larger than what is read line by line; ranks 5 and 17 fail in the middle of it and at its end."""
    log = tmp_path / "job.log"
    half = steps(SMALL_BYTES // 40)
    log.write_text(half + RAISED.format(5) + half + RAISED.format(17))
    assert log.stat().st_size > SMALL_BYTES
    return log


def test_of_a_large_log_the_failures_are_read_and_not_its_steps(large: Path) -> None:
    lines = [*raw_lines(large)]
    whole = large.read_bytes().split(b"\n")
    assert [facts.rank for facts in read_logs([large]).ranks if facts.facts[0].error is not None] == [5, 17]
    assert len(lines) < 2_000
    assert all(whole[line.number - 1] == line.data for line in lines)


def test_of_a_large_log_the_ordinary_lines_around_a_failure_are_read(large: Path) -> None:
    numbers = [line.number for line in raw_lines(large)]
    first = next(number for number, line in enumerate(large.read_text().split("\n"), 1) if "KeyError" in line)
    assert {*range(first - 2, first + 40)} <= {*numbers}
    assert numbers == sorted(set(numbers))


def test_a_failure_behind_a_megabyte_without_a_line_end_is_found(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_bytes(
        b"step 1 loss 2\n"
        + b"x" * (SMALL_BYTES * 2)
        + b" RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB."
    )
    (finding,) = diagnose(gather([log])).findings
    assert finding.code == "DDP407"


def test_thousands_of_equal_tracebacks_are_read_up_to_a_number_for_each_form(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text("".join(RAISED.format(number % 64) for number in range(60_000)))
    assert log.stat().st_size > SMALL_BYTES
    assert sum(1 for _ in raw_lines(log)) < 4 * MAX_PER_FORM
    (finding,) = diagnose(gather([log])).findings
    assert finding.ranks == (*range(64),)


def test_random_bytes_and_escape_sequences_never_reach_the_terminal(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    noise = random.Random(3).randbytes(20_000).replace(b"\0", b"")
    log.write_bytes(b"step 1 loss 2\n" + noise + b"\n\x1b[31mRuntimeError\x1b]0;title\x07: \x1b[2Jbad\x1b[0m shard\n")
    shown = text.render(diagnose(gather([log])))
    assert all(character in "\n\t" or character.isprintable() for character in shown)


def test_progress_bars_write_over_themselves_and_hide_nothing(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    bar = b"".join(b"\r %d%%|##| %d/100 [00:01<00:09, 9.1it/s]" % (n, n) for n in range(100))
    log.write_bytes(bar + b"\r[rank3]: ValueError: bad shard\r" + bar + b"\n")
    job = read_logs([log]).one(JobLog)
    assert job is not None
    assert [(line.rank, line.text) for line in job.failure_lines] == [(3, "ValueError: bad shard")]


@pytest.mark.parametrize("code", sorted({code for code, _, _ in error_table().entries}))
def test_no_declared_text_takes_more_than_linear_time(code: str) -> None:
    """Half of each pattern, repeated, is what makes a search start again and again."""
    for _, pattern, regex in (entry for entry in error_table().entries if entry[0] == code):
        words = ["".join(c for c in part if c.isalnum() or c in " ':/-=[]()<>.,") for part in pattern.regex.split("|")]
        for word in {
            *words,
            "'",
            " ",
            "Error: ",
            "world_size=1, worker_count=",
            "[Errno 2] No such file or directory: '",
        }:
            began = time.process_time()
            regex.search((word * 8_192)[:8_192])
            assert time.process_time() - began < LINEAR_SECONDS, (pattern.regex, word)


@pytest.mark.parametrize("word", ["NCCL ", "[c10d] ", "error: ", "a.b: ", "Process ", "\\[E1206 ", "[W ", "WARNING "])
def test_to_see_whether_a_line_shows_a_failure_takes_linear_time(word: str) -> None:
    began = time.process_time()
    shows_a_failure((word * 8_192)[:8_192])
    assert time.process_time() - began < LINEAR_SECONDS


def test_of_lines_that_all_read_like_failures_few_of_each_form_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hexadecimal numbers make no new form; what stands at the end of the file is there in any case."""
    monkeypatch.setattr(raw_lines_module, "SMALL_BYTES", 1 << 16)
    monkeypatch.setattr(raw_lines_module, "MAX_SHOWN", 500)
    noise = random.Random(3)
    file = tmp_path / "job.log"
    lines = [
        f"[rank3]: failed to fetch shard {noise.getrandbits(64):x}, connection {number}" for number in range(4_000)
    ]
    file.write_text("\n".join([*lines, "[rank1]: ValueError: bad shard 7"]) + "\n")

    kept = [line.data for line in raw_lines_module.raw_lines(file)]

    assert len(kept) < 500 + 2 * raw_lines_module.SAMPLED_LINES
    assert b"[rank1]: ValueError: bad shard 7" in kept


def test_a_file_without_a_size_is_read_as_a_small_one() -> None:
    """Regression: /proc/cpuinfo cannot be searched from its end, which was an internal error."""
    file = Path("/proc/self/comm")
    assert next(raw_lines(file)).data == file.read_bytes().rstrip(b"\n")
    assert run(["diagnose", "/proc/cpuinfo"]) != 4


def test_a_file_whose_size_is_not_known_is_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of the kernel's files, and of some file systems of users."""
    file = tmp_path / "job.log"
    file.write_bytes(
        b"an ordinary line\n" * (raw_lines_module.SMALL_BYTES // 16) + b"[rank0]: ValueError: at the end\n"
    )
    monkeypatch.setattr(raw_lines_module, "_size_of", lambda _stream: 0)
    assert any(line.data == b"[rank0]: ValueError: at the end" for line in raw_lines(file))


def test_a_log_that_can_be_opened_and_not_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fails(_stream: object) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    log = tmp_path / "job.log"
    log.write_text(RAISED.format(0))
    monkeypatch.setattr(raw_lines_module, "_size_of", fails)
    assert run(["diagnose", str(log)]) == 2
    assert capfd.readouterr().err == f"ddpdoctor: {log} cannot be read: Input/output error\n"


@pytest.mark.timeout(60)
def test_the_holes_of_a_sparse_file_are_not_read(tmp_path: Path) -> None:
    """A terabyte of nothing between two failures: neither is lost, and nobody waits."""
    file = tmp_path / "job.log"
    with file.open("wb") as log:
        log.write(b"[rank0]: ValueError: before\n")
        log.truncate(1 << 40)
        log.seek(0, os.SEEK_END)
        log.write(b"\n[rank1]: ValueError: behind\n")
        log.truncate(2 << 40)
    if file.stat().st_blocks * 512 > 1 << 30:
        pytest.skip("this file system has no sparse files")
    lines = [line.data.strip(b"\0") for line in raw_lines(file)]
    assert {b"[rank0]: ValueError: before", b"[rank1]: ValueError: behind"} <= {*lines}


@pytest.mark.timeout(60)
def test_a_log_that_grows_faster_than_it_is_read_has_an_end(tmp_path: Path) -> None:
    file = tmp_path / "job.log"
    file.write_bytes(b"step\n" * (1 << 20))
    with file.open("ab") as log:
        for line in raw_lines(file):
            log.write(b"[rank0]: ValueError: more\n" * 50_000)
            log.flush()
            assert b"more" not in line.data
