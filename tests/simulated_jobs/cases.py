"""Sick and healthy jobs by name: what was planted, on which ranks, and what must be said of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from tests.simulated_jobs import faults
from tests.simulated_jobs.dumps import dumps_of
from tests.simulated_jobs.execution import Execution
from tests.simulated_jobs.faults import Disturbance, Programs, of, place_of
from tests.simulated_jobs.program import Call, Job, programs
from tests.simulated_jobs.topology import DEFAULT, MODEL, PIPELINE, Topology

Plant = Callable[[Job, Programs, Disturbance], None]

DENSE = Job()
WIDE = Job(topology=Topology(tensor=4, pipeline=2, data=2))
MIXTURE = Job(topology=Topology(experts=True))
BATCHED = Job(batched=True)
PREFETCH = Job(prefetch=True)
LARGE = Job(topology=Topology(tensor=2, pipeline=4, data=4, experts=True), steps=2)
JOBS = {"dense": DENSE, "wide": WIDE, "mixture": MIXTURE, "batched": BATCHED, "prefetch": PREFETCH, "large": LARGE}


@dataclass(frozen=True, kw_only=True)
class Case:
    """One job with what was planted in it, and the code and ranks that must be named."""

    job: Job
    plant: Plant
    code: str | None
    ranks: tuple[int, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)

    def documents(self, *, seed: int = 0) -> dict[int, dict[str, Any]]:
        """The dump of every rank that left one."""
        written = programs(self.job)
        disturbance = Disturbance()
        self.plant(self.job, written, disturbance)
        run = Execution(self.job.topology, written, disturbance, seed)
        return dumps_of(run, without=frozenset(disturbance.without_dump), **self.options)


def late(share: float) -> Callable[[list[Any]], int]:
    """The place of a call in the last step, at this share of it."""

    def place(program: list[Any]) -> int:
        calls = [number for number, item in enumerate(program) if isinstance(item, Call)]
        return calls[int(len(calls) * (0.7 + 0.25 * share))]

    return place


def frozen(*ranks: int, share: float = 0.3) -> Plant:
    def plant(job: Job, written: Programs, disturbance: Disturbance) -> None:
        for rank in ranks:
            disturbance.host_stops[rank] = late(share)(written[rank])

    return plant


def unnoticed(*ranks: int, share: float = 0.3) -> Plant:
    def plant(job: Job, written: Programs, disturbance: Disturbance) -> None:
        for rank in ranks:
            disturbance.completions_unnoticed[rank] = late(share)(written[rank])

    return plant


def dead(*ranks: int, share: float = 0.3) -> Plant:
    def plant(job: Job, written: Programs, disturbance: Disturbance) -> None:
        for rank in ranks:
            disturbance.host_stops[rank] = disturbance.device_stops[rank] = late(share)(written[rank])
            disturbance.without_dump.add(rank)

    return plant


def stuck(description: str, rank: int, share: float = 0.6, op: str | None = None) -> Plant:
    def plant(job: Job, written: Programs, disturbance: Disturbance) -> None:
        group = job.topology.group(rank, description)
        calls = [item for item in written[rank] if isinstance(item, Call) and of(description)(item)]
        disturbance.stuck[group.name, description == PIPELINE] = max(1, int(len(calls) * share))

    return plant


def left_out(rank: int, description: str, number: int, op: str | None = None) -> Plant:
    def plant(job: Job, written: Programs, disturbance: Disturbance) -> None:
        faults.left_out(written, rank, place_of(written[rank], number, where=of(description, op)))

    return plant


def called_besides(rank: int, description: str, before: int, op: str = "all_reduce") -> Plant:
    def plant(job: Job, written: Programs, disturbance: Disturbance) -> None:
        place = place_of(written[rank], before, where=of(description))
        faults.called_besides(written, rank, place, Call(description=description, op=op, sizes=(1,)))

    return plant


def other_shape(rank: int, description: str, number: int) -> Plant:
    def plant(job: Job, written: Programs, disturbance: Disturbance) -> None:
        faults.in_other_shape(written, rank, place_of(written[rank], number, where=of(description)))

    return plant


def other_partner(rank: int, partner: int, number: int) -> Plant:
    """One receive of the rank waits for another rank of its pipeline."""

    def plant(job: Job, written: Programs, disturbance: Disturbance) -> None:
        place = place_of(written[rank], number, where=of(PIPELINE, "recv"))
        call = written[rank][place]
        assert isinstance(call, Call)
        assert call.peer != partner
        written[rank][place] = replace(call, peer=partner)

    return plant


def out_of_data(*replicas: int) -> Plant:
    """These data-parallel replicas leave the loop before the last steps, and wait for the others at the end of the program."""

    def plant(job: Job, written: Programs, disturbance: Disturbance) -> None:
        for rank, program in enumerate(written):
            if job.topology.coordinates(rank)[1] in replicas:
                first = place_of(program, -1, where=of(MODEL)) // job.steps + 2
                program[first:] = [Call(description=DEFAULT, op="barrier", sizes=(1,))]
            else:
                program.append(Call(description=DEFAULT, op="barrier", sizes=(1,)))

    return plant


def one_turn_more(rank: int) -> Plant:
    """This rank makes the last step once more, while the others wait for it at the end of the program."""

    def plant(job: Job, written: Programs, disturbance: Disturbance) -> None:
        program = written[rank]
        program += program[-(len(program) // job.steps) :]
        for each in written:
            each.append(Call(description=DEFAULT, op="barrier", sizes=(1,)))

    return plant


def lost_dump(*ranks: int) -> Plant:
    """The ranks live, and nobody collected what they left."""

    def plant(job: Job, written: Programs, disturbance: Disturbance) -> None:
        disturbance.without_dump.update(ranks)

    return plant


def together(*plants: Plant) -> Plant:
    def plant(job: Job, written: Programs, disturbance: Disturbance) -> None:
        for one in plants:
            one(job, written, disturbance)

    return plant


def healthy(job: Job, written: Programs, disturbance: Disturbance) -> None:
    """Nothing is planted."""
