"""Logs that are compressed or in UTF-16: `diagnose` and `explain` read them as they are."""

from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest

from ddpdoctor.cli import run
from ddpdoctor.logs.raw_lines import SMALL_BYTES, raw_lines

RAISED = '[rank2]: Traceback (most recent call last):\n[rank2]:   File "/w/t.py", line 9, in f\n[rank2]: KeyError: 7\n'
ENCODINGS: dict[str, Callable[[str], bytes]] = {
    "gzip": lambda text: gzip.compress(text.encode()),
    "bzip2": lambda text: bz2.compress(text.encode()),
    "xz": lambda text: lzma.compress(text.encode()),
    "UTF-16": lambda text: text.replace("\n", "\r\n").encode("utf-16"),
    "UTF-16, the high byte first": lambda text: b"\xfe\xff" + text.encode("utf-16-be"),
}


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_an_encoded_log_is_read(encoding: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "job.log.gz"  # what the name says does not matter
    log.write_bytes(ENCODINGS[encoding](RAISED))
    assert run(["diagnose", str(log)]) == 1
    assert "rank 2 raised KeyError: 7" in capsys.readouterr().out
    assert run(["explain", str(log)]) == 0
    assert "rank 2 raised KeyError: 7" in capsys.readouterr().out


@pytest.mark.parametrize("encoding", ["gzip", "UTF-16"])
def test_a_large_encoded_log_is_read_in_blocks(encoding: str, tmp_path: Path) -> None:
    steps = "".join(f"step {number} loss {number / 7:.4f}\n" for number in range(SMALL_BYTES // 16))
    log = tmp_path / "job.log"
    log.write_bytes(ENCODINGS[encoding](steps + RAISED + steps))
    lines = [*raw_lines(log)]
    assert len(lines) < 1000
    (found,) = [line for line in lines if b"KeyError" in line.data]
    assert found.number == steps.count("\n") + 3


def test_a_compressed_log_that_is_cut_is_read_up_to_the_cut(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As of a job that still writes it, or of a copy that did not come to its end."""
    log = tmp_path / "job.log.gz"
    log.write_bytes(gzip.compress((RAISED + "step 1\n" * 10).encode())[:-4])
    assert run(["diagnose", str(log)]) == 1
    assert "rank 2 raised KeyError: 7" in capsys.readouterr().out


def test_of_a_folder_compressed_files_are_read_that_are_named_like_logs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "job.log.1.gz").write_bytes(gzip.compress(RAISED.encode()))
    (tmp_path / "samples.jsonl.gz").write_bytes(gzip.compress(b"[rank7]: ValueError: a sample of a data set\n"))
    assert run(["diagnose", str(tmp_path)]) == 1
    printed = capsys.readouterr().out
    assert "rank 2 raised KeyError: 7" in printed
    assert "ValueError" not in printed
    assert f"not used: {tmp_path / 'samples.jsonl.gz'}: it is compressed" in printed


@pytest.mark.parametrize("content", [bytes(range(256)) * 4, b'{"format": "ddpdoctor.case/1"}'], ids=["binary", "case"])
def test_what_is_no_log_inside_is_to_be_unpacked_by_hand(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "job.log.gz"
    file.write_bytes(gzip.compress(content))
    assert run(["diagnose", str(file)]) == 3
    assert f"{file}: it is compressed: unpack it (`gunzip --keep " in capsys.readouterr().err
