"""A job with one fault by its seed: its truth, and the folder with its dumps."""

from __future__ import annotations

import gc
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from tests.stream_jobs.dumps import Recorder, recorder, write
from tests.stream_jobs.faults import Fault, fault
from tests.stream_jobs.layouts import Layout, layout
from tests.stream_jobs.programs import Style, program, style
from tests.stream_jobs.streams import ROOTED, Run

TRIES = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpSet:
    """A job that hangs."""

    seed: int
    layout: Layout
    style: Style
    fault: Fault
    recorder: Recorder
    run: Run

    def describe(self) -> str:
        """One line for people who look at a miss."""
        set_up = f"{self.recorder.version}, ring {self.recorder.ring}{', active' if self.recorder.only_active else ''}"
        return (
            f"{self.fault.kind}: {[*self.fault.ranks]}, {self.fault.told}; axes {self.layout.axes}, {self.style.schedule}"
            f"{' in batches' if self.style.batched else ''}; {set_up}"
        )


def dump_set(seed: int, folder: Path, *, tick: int = 1) -> DumpSet:
    """The job of this seed, with its dumps in the folder; the clocks of its hosts advance by `tick` nanoseconds."""
    enabled = gc.isenabled()
    gc.disable()  # what is simulated is one large cycle: to look through it again and again takes most of the time
    try:
        return _drawn(seed, folder, tick)
    finally:
        if enabled:
            gc.enable()


def _drawn(seed: int, folder: Path, tick: int) -> DumpSet:
    random = Random(seed)
    for _ in range(TRIES):
        placed = layout(random)
        chosen = style(random, placed)
        programs = [program(placed, chosen, rank) for rank in range(placed.ranks)]
        healthy = Run(programs)
        if healthy.hung():
            continue
        planted = fault(random, programs, healthy)
        if planted is None:
            continue
        run = Run(planted.programs, planted.trouble)
        setting = replace(recorder(random, placed.ranks, max(host.clock for host in healthy.hosts)), tick=tick)
        shown = _shown(run, planted)
        planted = replace(planted, ranks=shown, hidden=tuple(rank for rank in planted.ranks if rank not in shown))
        if run.hung() and _waited_for(run, planted):
            write(folder, run, placed, setting, random, planted.blind)
            return DumpSet(seed=seed, layout=placed, style=chosen, fault=planted, recorder=setting, run=run)
    raise AssertionError(f"seed {seed}: no fault of {TRIES} led to a hang")


def _waited_for(run: Run, planted: Fault) -> bool:
    """Whether another rank waits: one that stands behind its last call harms nobody."""
    return any(
        entry.end is not None and entry.end.at is None
        for host in run.hosts
        if host.rank not in planted.ranks or planted.kind == "stuck link"
        for entry in host.entries
    )


def _shown(run: Run, planted: Fault) -> tuple[int, ...]:
    """Of several culprits those that the others' recorders show, all where they show none.

    A frozen host with something outstanding waits like any other rank. A stopped device is seen by what its peers completed
    with it.
    """
    if planted.kind == "frozen host":
        shown = [
            rank
            for rank in planted.ranks
            if all(entry.end is None or entry.end.at is not None for entry in run.hosts[rank].entries)
        ]
    else:
        shown = [
            rank
            for rank in planted.ranks
            if rank in planted.blind
            and any(
                entry.end is not None
                and entry.end.at is not None
                and entry.end.at > planted.blind[rank]
                and not entry.between
                and entry.op not in ROOTED
                for entry in run.hosts[rank].entries
            )
        ]
    return tuple(shown) or planted.ranks
