"""A job that crawls is told so while it runs, with the line that holds it up."""

from __future__ import annotations

import os
import sys

from ddpdoctor.agent import DIRECTORY, job_environment
from ddpdoctor.engine import diagnose
from ddpdoctor.launch.observed_job import observe
from ddpdoctor.launch.private_directory import private_directory
from ddpdoctor.launch.sick_jobs import faults
from ddpdoctor.workflows.watch.evidence import JobEvidence
from ddpdoctor.workflows.watch.loop import SlowJob, Watch
from ddpdoctor.workflows.watch.stall_detector import StallDetector

TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "3")


def test_the_line_of_a_slow_rank_is_named_while_the_job_runs() -> None:
    fault = faults()["DDP601"]
    options = ["--culprit", "0", "--how", "input", "--seconds", "0.2", "--steps", "400"]
    with private_directory(for_sockets=True) as folder:
        environ = {**job_environment(["watch"], folder.path, os.environ), "OMP_NUM_THREADS": "1"}
        environ["DDPDOCTOR_WATCHER"] = str(os.getpid())
        command, mark = [*TORCHRUN, str(fault), *options], f"{DIRECTORY}={folder.path}"
        with observe(command, environ=environ, mark=mark, folder=folder, die_with_us=True) as job:
            try:
                known = JobEvidence(job=job, directory=folder.path)
                watching = Watch(known=known, stall_detector=StallDetector(given=60), pace_after=8.0)
                event = next(watching.events())
            finally:
                job.end()
                job.wait(30.0)
                job.drain()
    assert isinstance(event, SlowJob)
    (finding,) = diagnose(event.evidence, select=event.codes).findings
    assert (finding.code, finding.ranks) == ("DDP601", (0,))
    (where,) = finding.where
    assert where.file == str(fault)
    assert "# sick input" in fault.read_text().splitlines()[where.line - 1]
    assert "samples" in where.note
