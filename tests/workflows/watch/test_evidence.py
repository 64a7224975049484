"""What is known of a job while it runs: it stalls only where somebody says so."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ddpdoctor.evidence.process import Stall
from ddpdoctor.launch.observed_job import observe
from ddpdoctor.launch.private_directory import private_directory
from ddpdoctor.workflows.watch.evidence import JobEvidence


@pytest.mark.parametrize("stalled", [True, False], ids=["stalled", "looked at while it moves"])
def test_a_look_at_a_job_says_whether_the_job_stalled(tmp_path: Path, *, stalled: bool) -> None:
    with (
        private_directory() as folder,
        observe(["sleep", "600"], environ={}, mark=f"NOBODY={os.getpid()}", folder=folder, die_with_us=True) as job,
    ):
        evidence = JobEvidence(job=job, directory=tmp_path).during_stall((), 30.0, stalled=stalled)
        job.end()
        job.wait(30.0)
        job.drain()
    stall = evidence.one(Stall)
    assert (stall is not None) is stalled
    assert stall is None or stall.seconds >= 30.0
