"""A job that was started without ddpdoctor: `hang` looks at it, and `diagnose` reads its log and dumps."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ddpdoctor.launch.guarded_process import end, run, start_guarded
from ddpdoctor.ranks.own_dumps import PIPE
from tests.ward.jobs import DEADLINE_SECONDS, Recording, Watched

POLL_SECONDS = 0.2
LOOK_DEADLINE_SECONDS = 120.0  # of one `hang` or `diagnose` on a busy machine


def inspected(
    command: Sequence[str], *, culprit: int, style: str, with_pipe: bool, still_after: float
) -> dict[str, Watched]:
    """The reports of `hang` and `diagnose`, by command; no `hang` where the job ended by itself.

    The job stands still when no rank's flight recorder has grown for `still_after` seconds. Where `with_pipe`, its ranks
    take requests for a dump, as those of NCCL do.
    """
    with tempfile.TemporaryDirectory(prefix="ward-") as folder:
        recording, log = Recording.below(Path(folder)), Path(folder) / "job.log"
        env = recording.environment(culprit, style) | {"TORCH_FR_DUMP_TEMP_FILE": f"{folder}/requested_"}
        env |= {PIPE: f"{folder}/pipe_"} if with_pipe else {}
        reports = {}
        with log.open("w") as written:
            job = start_guarded(command, env=env, stdout=written.fileno(), stderr=subprocess.STDOUT)
            try:
                if _stands_still(job, recording, still_after):
                    reports["hang"] = _report_of(["hang", str(job.pid)])
            finally:
                end(job)
        left = [str(recording.dumps)] if any(recording.dumps.glob("rank_*")) else []
        return reports | {"diagnose": _report_of(["diagnose", *left, str(log)])}


def _stands_still(job: subprocess.Popen[str], recording: Recording, seconds: float) -> bool:
    """Wait for a hang or for the end of the job. Return whether the job still runs."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while job.poll() is None and time.monotonic() < deadline and not recording.stands_still(seconds):
        time.sleep(POLL_SECONDS)
    return job.poll() is None


def _report_of(arguments: Sequence[str]) -> Watched:
    with tempfile.TemporaryDirectory(prefix="ward-") as folder:
        output = Path(folder) / "report.json"
        command = [sys.executable, "-m", "ddpdoctor", *arguments, "--format", "json", "--output", str(output)]
        ended = run(command, deadline_seconds=LOOK_DEADLINE_SECONDS)
        report: dict[str, Any] = json.loads(output.read_text()) if output.exists() else {"findings": []}
    return Watched(ended=ended, report=report)
