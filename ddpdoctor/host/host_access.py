"""What a collector may touch: an environment, a file system, and programs that run under a deadline."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from ddpdoctor.evidence import Missing, kinds
from ddpdoctor.evidence.launch import Launch
from ddpdoctor.launch.guarded_process import ProgramEnd, run
from ddpdoctor.launch.private_directory import PrivateDirectory
from ddpdoctor.launch.ranks import our_file
from ddpdoctor.regular_file import MOST_SETTINGS_BYTES, read_regular


def _started_by_hand() -> bool:
    """Whether an interactive shell started this process: it has the terminal, and job control gave it a group of its own."""
    return os.isatty(0) and os.getpgid(0) != os.getpgid(os.getppid())


@dataclass(frozen=True, slots=True, kw_only=True)
class HostAccess:
    """This process's surroundings; a test gives others."""

    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    """The variables of the environment."""
    root: Path = Path("/")
    """Stands before every absolute path that is read."""
    stop: threading.Event = field(default_factory=threading.Event)
    """Once set, every program that runs ends at once, with all that it started."""
    by_hand: bool = field(default_factory=_started_by_hand)
    """Whether a person at a terminal started this process."""

    @property
    def launch(self) -> Launch | None:
        """The launch that this process is a rank of, or None."""
        launch = Launch.from_environ(self.environ)
        if launch is None or launch.launcher == "torchrun":
            return launch
        return replace(launch, by_hand=self.by_hand)

    def path(self, absolute: str) -> Path:
        """`absolute` below `root`."""
        return self.root / absolute.lstrip("/")

    def text(self, absolute: str) -> str | None:
        """The content of a small regular file without surrounding white space, or None where it cannot be read."""
        try:
            return read_regular(self.path(absolute), most=MOST_SETTINGS_BYTES).decode(errors="replace").strip()
        except (OSError, ValueError):
            return None

    def run(
        self,
        command: Sequence[str],
        *,
        deadline_seconds: float,
        folder: PrivateDirectory | None = None,
    ) -> ProgramEnd:
        """Run a program that may hang; see `launch.guarded_process.run`."""
        return run(command, deadline_seconds=deadline_seconds, folder=folder, poll=self.stop.is_set)

    def ask_probe(self, name: str, *expected: type, deadline_seconds: float, subject: str) -> list[Any]:
        """The facts that the probe `name` prints, one JSON line `{kind: fields}` each, with `Missing` for the others.

        `expected` are the kinds that the probe owes; `subject` is what is said to be silent or dead, such as `NVML`.
        """
        command = [sys.executable, str(our_file("probes", name))]
        ended = self.run(command, deadline_seconds=deadline_seconds)
        answers = ended.answers
        silence = _why_silent(ended, subject, deadline_seconds)
        facts: list[Any] = []
        for kind in expected:
            if kind.__name__ in answers:
                facts.append(msgspec.convert(answers[kind.__name__], kinds()[kind.__name__], str_keys=True))
            else:
                reason = answers.get("missing", {}).get(kind.__name__) or silence
                facts.append(Missing(kind=kind.__name__, reason=reason))
        return facts


def _why_silent(ended: ProgramEnd, subject: str, deadline_seconds: float) -> str:
    if ended.timed_out:
        return f"{subject} did not answer within {deadline_seconds:g} s"
    last = next((line.strip() for line in reversed(ended.stderr.splitlines()) if line.strip()), "without output")
    return f"the process that queried {subject} ended with code {ended.code}: {last}"
