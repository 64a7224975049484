"""Run the reference job (reference_train/train.py) on every rank, and keep what it achieved."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec

from ddpdoctor.errors import UsageError
from ddpdoctor.evidence import Evidence, Missing
from ddpdoctor.evidence.training import ParityRun, TrainingRun
from ddpdoctor.launch.attendance import WaitingProcess
from ddpdoctor.launch.guarded_process import ProgramEnd, run
from ddpdoctor.launch.launch_failure import why_ranks_failed
from ddpdoctor.launch.ranks import RankRun, checked_nproc, current_launch, our_file, run_ranks

OnEvent: TypeAlias = "Callable[[Mapping[str, Any]], None]"

OPTIONS_SECONDS = 30.0  # no torch is imported for it
_ARGPARSE = re.compile(r"^\w+(?:\.py)?: error: (.*)$", re.MULTILINE)
SILENCE_SECONDS = 300.0  # the job speaks five times a second; a first step on a cold, busy machine takes a minute


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceJob:
    """One run of the reference job. A job that fails, or says nothing for five minutes, leaves the evidence undecided."""

    arguments: Sequence[str] = ()
    """The options of the job."""
    nproc: int | None
    """How many ranks are started on this host; None for one per GPU, or under a launcher, which has started them."""
    deadline_seconds: float = math.inf
    """When the job is ended."""
    on_event: OnEvent | None = None
    """Called with each event (`step`, `epoch`, `end`) as it comes."""
    on_wait: Callable[[WaitingProcess], None] | None = None
    """Under a launcher called once a second until all ranks have met."""
    env: Mapping[str, str] | None = None
    """Variables that the ranks get besides those of this process."""

    def run(self, program: str) -> RankRun:
        """What the ranks that ran `program` of reference_train/ wrote.

        Raises:
            UsageError: the job refused its input; the message says which and why.
        """
        if program == "recipe.py":
            _check_options(self.arguments, self.nproc)
        job, given = our_file("reference_train", program), self.arguments
        if self.on_wait is not None and current_launch() is not None:
            job, given = our_file("probes", "reference_rank.py"), [str(job), *self.arguments]
        ranks = run_ranks(
            job,
            given,
            nproc=self.nproc,
            deadline_seconds=self.deadline_seconds,
            silence_seconds=SILENCE_SECONDS,
            on_result=self.on_event,
            on_wait=self.on_wait,
            env=self.env,
        )
        if refusal := _refusal(ranks):
            raise UsageError(refusal)
        return ranks


def run_training(job: ReferenceJob) -> tuple[Evidence, bool]:
    """The evidence of one training run, and whether this process reports for the job.

    Without arguments it is the simple path, train.py; with any it is recipe.py, which has the options.

    Raises:
        UsageError: the job refused its input.
    """
    ranks = job.run("recipe.py" if job.arguments else "train.py")
    end = _event(ranks, "end")
    if end is None:
        return _nothing(ranks, "TrainingRun"), ranks.speaks
    epochs = [_finite(event) for event in ranks.results if event["event"] == "epoch"]
    return Evidence(job=(msgspec.convert({**_finite(end), "epochs": epochs}, TrainingRun),)), True


def run_parity(job: ReferenceJob) -> tuple[Evidence, bool]:
    """The evidence of comparing N ranks with one process (reference_train/parity.py); otherwise as `run_training`."""
    ranks = job.run("parity.py")
    proof = _event(ranks, "proof")
    if proof is None:
        return _nothing(ranks, "ParityRun"), ranks.speaks
    gates = [_finite(event) for event in ranks.results if event["event"] == "gate"]
    return Evidence(job=(msgspec.convert({**proof, "gates": gates}, ParityRun),)), True


def options_in_words() -> str:
    """The help text of the job's options."""
    return _parsed(1, ["--help"]).stdout


def _check_options(arguments: Sequence[str], nproc: int | None) -> None:
    """Refuse options at once, before ranks import torch to refuse them."""
    launch = current_launch()
    ended = _parsed(launch.world_size if launch is not None else checked_nproc(nproc), arguments)
    if ended.code == 2 and (refusal := _ARGPARSE.search(ended.stderr)):
        raise UsageError(refusal[1], hint="`ddpdoctor train -- --help` lists the job's options")


def _parsed(world_size: int, arguments: Sequence[str]) -> ProgramEnd:
    """How the reading of the job's options ended."""
    program = our_file("reference_train", "recipe_options.py")
    return run([sys.executable, str(program), str(world_size), *arguments], deadline_seconds=OPTIONS_SECONDS)


def _event(ranks: RankRun, name: str) -> dict[str, Any] | None:
    return next((event for event in ranks.results if event["event"] == name), None)


def _nothing(ranks: RankRun, kind: str) -> Evidence:
    """The evidence of a job that came to no result; on a rank that does not speak, of one that ended well."""
    if not ranks.speaks and ranks.ended.code == 0:
        return Evidence()
    stopped = _event(ranks, "stopped")
    if stopped is not None:
        why = f"the training job was stopped on request after step {stopped['step']}"
    else:
        why = ranks.lacking or why_ranks_failed(ranks.ended, "the training job")
    return Evidence(missing=(Missing(kind=kind, reason=why),), undecided=(why,))


def _finite(event: Mapping[str, Any]) -> dict[str, Any]:
    """The event with None for the numbers that JSON does not know: a diverged loss is NaN."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in event.items()
    }


def _refusal(ranks: RankRun) -> str | None:
    """What the job said of input that it refused: in its results, or on the streams where it could not write those."""
    for event in ranks.results:
        if event["event"] == "refused":
            return str(event["reason"])
    refusal = re.search(r"^refused: reason (.*)$", ranks.ended.stdout, re.MULTILINE) or _ARGPARSE.search(
        ranks.ended.stderr
    )
    return refusal[1] if refusal else None
