"""A training script that verify-sync runs, how its ranks are started, and how closely they are looked at."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

from ddpdoctor.agent.inside.verify_sync_feature import CLOSE_UP, EVERY, PROBE, RECOMPUTE
from ddpdoctor.launch.ranks import ranks_command
from ddpdoctor.workflows.step_bisection import OpenQuestion


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingScript:
    """A script with its arguments, and who starts its ranks."""

    path: Path
    """Its file."""
    arguments: tuple[str, ...]
    """What it gets on its command line."""
    nproc: int | None
    """The number of ranks to start here; None where the launcher that started us, or the script itself, starts them."""
    own_ranks: bool = False
    """Whether it is run once, as one process that is no rank, and starts its ranks itself."""

    @property
    def text(self) -> str:
        """The script with its arguments, as in a shell."""
        return shlex.join([str(self.path), *self.arguments])

    @property
    def without_us(self) -> str:
        """The command that starts it without ddpdoctor; of a launcher that only the user knows, its name."""
        if self.own_ranks:
            return f"python {self.text}"
        return f"torchrun {'...' if self.nproc is None else f'--nproc-per-node {self.nproc}'} {self.text}"

    def command(self, logs: Path) -> tuple[list[str], dict[str, str]]:
        """The command that runs it here, and the variables that this needs; ranks leave their logs in `logs`.

        Raises:
            UsageError: `nproc` is out of range.
        """
        if self.own_ranks:
            return [sys.executable, str(self.path), *self.arguments], {}
        return ranks_command(self.path, self.arguments, nproc=self.nproc, logs=str(logs))


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What is looked at while a script trains."""

    every: int = 0
    """The interval of audits in steps; 0: as often as the budget for overhead allows."""
    probe_every: int = 0
    """The interval of probe batches in steps; 0: none is run."""
    recompute: bool = False
    """Whether audited optimizer steps are made again."""
    closely: OpenQuestion | None = None
    """What an earlier run left open."""

    @property
    def environ(self) -> dict[str, str]:
        """The variables by which the agent in each rank knows it."""
        window = "" if self.closely is None else f"{self.closely.window.equal_at + 1}-{self.closely.window.apart_at}"
        close_up = "" if self.closely is None else f"{window} {self.closely.tensor}"
        return {
            EVERY: str(self.every),
            PROBE: str(self.probe_every),
            CLOSE_UP: close_up,
            RECOMPUTE: str(int(self.recompute)),
        }
