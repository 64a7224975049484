"""A mistake of ddpdoctor's own in the middle of a job: the job comes to its end all the same, and only then does `watch`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ddpdoctor import cli
from ddpdoctor.workflows.watch.loop import Watch

JOB = "sleep 0.7; echo done > {file}"


def fails(_watch: Watch) -> Iterator[None]:
    raise ValueError("seven is not a rank")
    yield


def test_a_job_outlives_a_failure_of_watch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Watch, "events", fails)
    file = tmp_path / "result"
    began = time.monotonic()
    assert cli.run(["watch", "--quiet", "--", "sh", "-c", JOB.format(file=file)]) == 4
    assert file.read_text() == "done\n"
    assert time.monotonic() - began >= 0.7
    told = capfd.readouterr().err
    assert "watching failed (ValueError: seven is not a rank); the job goes on unwatched" in told
    assert "ddpdoctor failed: ValueError: seven is not a rank" in told
