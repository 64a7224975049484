"""Running a job the way people do, and the way ddpdoctor's users do."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ddpdoctor.launch.guarded_process import ProgramEnd, run
from tests import standin

DUMPS_AT_STALL = Path(__file__).with_name("dumps_at_stall")
STALL_SECONDS = 15.0  # four ranks that share two cores with other tests may take longer than ten for their first step
DEADLINE_SECONDS = 300.0  # of one job; on a free machine the longest takes 35


@dataclass(frozen=True, kw_only=True)
class Watched:
    """How `ddpdoctor watch` ended, and the report that it wrote (without findings where it wrote none)."""

    ended: ProgramEnd
    report: Mapping[str, Any]

    @property
    def transcript(self) -> str:
        """What stood on the screen, for whoever must find out what went wrong."""
        return f"exit code {self.ended.code} after {self.ended.seconds:.0f} s\n{self.ended.stdout}\n{self.ended.stderr}"


def torchrun(program: Path, nproc: int, arguments: Sequence[str] = ()) -> list[str]:
    """The command that starts `program` on `nproc` ranks of this machine."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(nproc)]
    return [*launcher, str(program), *arguments]


def environment(culprit: int, style: str = "gloo") -> dict[str, str]:
    """Environment variables of a job of the ward."""
    return {"OMP_NUM_THREADS": "1", "CULPRIT": str(culprit), **(standin.environment() if style == "gpu" else {})}


@dataclass(frozen=True, kw_only=True)
class Recording:
    """A folder with one flight recorder per rank. A job hangs when none of them changes."""

    dumps: Path
    """One pickle per rank."""
    changes: Path
    """One file per rank, written to when the recorder changes."""

    @classmethod
    def below(cls, folder: Path) -> Recording:
        """The two folders, made below `folder`."""
        found = cls(dumps=folder / "dumps", changes=folder / "changes")
        found.dumps.mkdir()
        found.changes.mkdir()
        return found

    def environment(self, culprit: int, style: str) -> dict[str, str]:
        """What the job finds in its environment."""
        env = environment(culprit, style)
        paths = (env.get("PYTHONPATH"), str(DUMPS_AT_STALL))
        env |= {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
        return env | {"WARD_DUMPS": str(self.dumps), "WARD_CHANGES": str(self.changes)}

    def stands_still(self, seconds: float) -> bool:
        """Whether no recorder has changed for so long; False before the first call."""
        changed = [one.stat().st_mtime for one in self.changes.iterdir()]
        return bool(changed) and time.time() - max(changed) > seconds


def plain(
    command: Sequence[str], *, culprit: int = 1, recording: Recording, still_after: float, style: str = "gloo"
) -> ProgramEnd:
    """The job as it runs today, ended when it has stood still so long."""
    return run(
        command,
        deadline_seconds=DEADLINE_SECONDS,
        env=recording.environment(culprit, style),
        poll=lambda: recording.stands_still(still_after),
    )


def watch(
    command: Sequence[str],
    *,
    culprit: int = 1,
    stall_after: float | None = None,
    deadline: float = DEADLINE_SECONDS,
    style: str = "gloo",
) -> Watched:
    """The job under `ddpdoctor watch`, which ends it when it hangs."""
    with tempfile.TemporaryDirectory(prefix="ward-") as folder:
        output = Path(folder) / "report.json"
        patience = STALL_SECONDS if stall_after is None else stall_after
        options = ["--stall-after", str(patience), "--kill-on-hang", "--format", "json", "--output", str(output)]
        ended = run(
            [sys.executable, "-m", "ddpdoctor", "watch", *options, "--", *command],
            deadline_seconds=deadline,
            env=environment(culprit, style),
        )
        report = json.loads(output.read_text()) if output.exists() else {"findings": []}
    return Watched(ended=ended, report=report)


def is_root() -> bool:
    """Whether the faults that need root can be shown here."""
    return os.geteuid() == 0
