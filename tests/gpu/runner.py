"""Runs parts one after the other, each once: a file remembers how each ended, so that a run can be resumed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.gpu.machine import ROOT, Machine, NoGpu
from tests.gpu.mps import mps
from tests.gpu.parts import Part, Step

STATE = "state.json"
GRACE_SECONDS = 10.0
SHOWN = 300  # characters of what a step said last


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a part ended: `done`, `failed` or `skipped`, why, and after how long."""

    how: str
    why: str = ""
    seconds: float = 0.0


def run(
    machine: Machine | NoGpu, parts: Sequence[Part], evidence: Path, *, minutes: float, again: bool = False
) -> dict[str, Ended]:
    """Run what has not been done yet, as far as the time allows; returns how each of these parts ended."""
    began = time.monotonic()
    state = {} if again else read_state(evidence)
    found: dict[str, Ended] = {}
    for part in parts:
        before = state.get(part.name)
        left = 60 * minutes - (time.monotonic() - began)
        if before is not None and before.how == "done":
            found[part.name] = before
            print(f"{part.name}: done before, in {before.seconds:.0f} s", flush=True)
            continue
        reason = _reason_to_skip(machine, part, left)
        if reason is not None:
            found[part.name] = Ended(how="skipped", why=reason)
        else:
            assert isinstance(machine, Machine)
            print(f"{part.name}: {part.told} (at most {part.seconds:.0f} s)", flush=True)
            found[part.name] = _run_part(machine, part, evidence / part.name)
        ended = found[part.name]
        print(
            f"{part.name}: {ended.how} in {ended.seconds:.0f} s"
            if ended.seconds
            else f"{part.name}: skipped: {ended.why}"
        )
        if ended.how != "skipped" and ended.why:
            print(f"    {ended.why}", flush=True)
        if isinstance(machine, Machine):
            state[part.name] = ended
            _write_state(evidence, state)
    return found


def read_state(evidence: Path) -> dict[str, Ended]:
    """How parts ended in earlier runs; nothing where the file is not there or damaged."""
    try:
        told = json.loads((evidence / STATE).read_text(encoding="utf-8"))
        return {name: Ended(**ended) for name, ended in told.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def keep(evidence: Path, target: Path) -> list[str]:
    """Copy what tests can use, the facts and the dumps of each fault with their verdicts; returns the names of the parts."""
    kept = []
    for name in sorted(path.parent.name for path in evidence.glob("*/facts.json")):
        shutil.copytree(evidence / name, target / name, dirs_exist_ok=True)
        kept.append(name)
    for verdicts in sorted(evidence.glob("*/verdicts.json")):
        dumps = verdicts.parent / "dumps"
        if any(dumps.glob("*")):
            shutil.copytree(dumps, target / verdicts.parent.name / "dumps", dirs_exist_ok=True)
            shutil.copy(verdicts, target / verdicts.parent.name)
            kept.append(verdicts.parent.name)
    return kept


def _write_state(evidence: Path, state: Mapping[str, Ended]) -> None:
    evidence.mkdir(parents=True, exist_ok=True)
    draft = evidence / f"{STATE}.new"
    draft.write_text(json.dumps({name: asdict(ended) for name, ended in state.items()}, indent=1), encoding="utf-8")
    draft.replace(evidence / STATE)


def _reason_to_skip(machine: Machine | NoGpu, part: Part, seconds_left: float) -> str | None:
    if isinstance(machine, NoGpu):
        return machine.reason
    if part.needs is not None and not os.environ.get(part.needs):
        return f"{part.needs} is not set"
    if seconds_left < part.seconds:
        return f"{seconds_left:.0f} s are left, and it may take {part.seconds:.0f} s: run `make gpu` again"
    return None


def _run_part(machine: Machine, part: Part, folder: Path) -> Ended:
    folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    for number, step in enumerate(part.steps):
        why = _run_step(machine, step, folder, folder / f"step-{number}.log")
        if why is not None:
            return Ended(how="failed", why=why, seconds=time.monotonic() - began)
    return Ended(how="done", why=_last_line(folder), seconds=max(0.001, time.monotonic() - began))


def _last_line(folder: Path) -> str:
    """What the last step said last."""
    logs = sorted(folder.glob("step-*.log"))
    said = logs[-1].read_text(encoding="utf-8", errors="replace").strip().splitlines() if logs else []
    return said[-1][:SHOWN] if said else ""


def _run_step(machine: Machine, step: Step, folder: Path, log: Path) -> str | None:
    """What went wrong, None where nothing did. Whatever the step has started is ended with it."""
    sharing = sharing_of(folder.parent)
    ranks = {"ranks": str(sharing.ranks), "two": str(min(2, sharing.ranks))}
    words = {**os.environ, "python": machine.python, "folder": str(folder), **ranks}
    command = [word.format_map(words) for word in step.command]
    with log.open("wb") as file, mps(wanted=sharing.mps) as variables:
        environment = {**os.environ, **machine.environment, **sharing.environment, **variables}
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
        )
        code: int | None
        try:
            code = process.wait(step.seconds)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            _end(process)
    if code in step.fine:
        return None
    how = f"was ended after {step.seconds:.0f} s" if code is None else f"ended with exit code {code}"
    return f"{' '.join(command)} {how}: {_last_line(folder)} ({log})"


@dataclass(frozen=True, kw_only=True)
class Sharing:
    """How many ranks can share the card, with which variables, and whether with the Multi-Process Service."""

    ranks: int = 1
    environment: Mapping[str, str] = field(default_factory=dict)
    mps: bool = False


def sharing_of(evidence: Path) -> Sharing:
    """What the part `sharing` found out; one rank where it has not been run."""
    try:
        told = json.loads((evidence / "sharing" / "sharing.json").read_text(encoding="utf-8"))
        return Sharing(ranks=told["ranks"], environment=told["environment"], mps=told["mps"])
    except (OSError, ValueError, KeyError, TypeError):
        return Sharing()


def _end(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return
        deadline = time.monotonic() + GRACE_SECONDS
        while time.monotonic() < deadline:
            process.poll()
            try:
                os.killpg(process.pid, 0)
            except ProcessLookupError:
                return
            time.sleep(0.05)
