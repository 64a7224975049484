"""Run the known-good job (reference_train/train.py) on every rank, and keep what it achieved."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from ddpdoctor.errors import UsageError
from ddpdoctor.evidence import Evidence, Missing
from ddpdoctor.evidence.training import TrainingRun
from ddpdoctor.launch.ranks import RankRun, our_file, run_ranks

SILENCE_SECONDS = 300.0  # the job speaks five times a second; a first step on a cold, busy machine takes a minute


def run_training(
    arguments: Sequence[str],
    *,
    nproc: int | None,
    deadline_seconds: float = float("inf"),
    on_event: Callable[[Mapping[str, Any]], None] | None = None,
) -> tuple[Evidence, bool]:
    """The evidence of one training run with these arguments of train.py, and whether this process speaks for the job.

    `on_event` sees each event (`step`, `epoch`, `end`) as it comes. A job that fails, or says nothing for five minutes,
    leaves the evidence undecided, with the reason.

    Raises:
        UsageError: the job refused its input; the message says which and why.
    """
    ranks = run_ranks(
        our_file("reference_train", "train.py"),
        arguments,
        nproc=nproc,
        deadline_seconds=deadline_seconds,
        silence_seconds=SILENCE_SECONDS,
        on_result=on_event,
    )
    if refusal := _refusal(ranks):
        raise UsageError(refusal)
    if not ranks.speaks:
        return Evidence(undecided=() if ranks.ended.code == 0 else (_why(ranks),)), False
    end = next((event for event in ranks.results if event["event"] == "end"), None)
    if end is None:
        why = _why(ranks)
        return Evidence(missing=(Missing(kind="TrainingRun", reason=why),), undecided=(why,)), True
    epochs = [event for event in ranks.results if event["event"] == "epoch"]
    run = msgspec.convert(_finite({**end, "epochs": [_finite(epoch) for epoch in epochs]}), TrainingRun)
    return Evidence(job=(run,)), True


def _finite(event: Mapping[str, Any]) -> dict[str, Any]:
    """The event with None for the numbers that JSON does not know: a diverged loss is NaN."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in event.items()
    }


def _refusal(ranks: RankRun) -> str | None:
    """What the job said of input that it refused: in its results, or on stdout where those could not be written."""
    for event in ranks.results:
        if event["event"] == "refused":
            return str(event["reason"])
    said = re.search(r"^refused: reason (.*)$", ranks.ended.stdout, re.MULTILINE)
    return said[1] if said else None


def _why(ranks: RankRun) -> str:
    """Why there is no result, with the last error that a rank printed."""
    errors = re.findall(r"^(?:\[rank\d+\]: )?\w*(?:Error|Exception): .*$", ranks.ended.stderr, re.MULTILINE)
    said = f"; it said: {errors[0]}" if errors else ""
    if ranks.ended.timed_out:
        return f"the training job was ended after {ranks.ended.seconds:.0f} s without a result{said}"
    return f"the training job ended with exit code {ranks.ended.code} before its result{said}"
