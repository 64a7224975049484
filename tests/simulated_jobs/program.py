"""What each rank of a pipelined training job calls, in order: one forward, one backward, in turns, then the optimizer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.simulated_jobs.topology import DATA, DEFAULT, EXPERT, MODEL, PIPELINE, TENSOR, Topology

HIDDEN, TOKENS = 512, 128
ROLL_BACK = 7  # token counts of experts repeat after that many calls


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of one rank.

    `peer` is the global rank of the other end, for sends and receives. The rank's later work on its device needs the result
    where `needed`. `batch` numbers the calls that `batch_isend_irecv` issues as one.
    """

    description: str
    op: str
    sizes: tuple[int, ...] = (TOKENS, HIDDEN)
    peer: int | None = None
    needed: bool = True
    batch: int | None = None


@dataclass(frozen=True, slots=True)
class Synchronize:
    """The host waits until its device is through with all that it was given."""


@dataclass(frozen=True, slots=True)
class Needs:
    """From here on the device needs the results of all earlier calls of this group."""

    description: str


Item = Call | Synchronize | Needs


@dataclass(frozen=True, kw_only=True)
class Job:
    """The shape of a job: its groups, and how much each rank does in a step.

    With `batched`, sends and receives of one moment are one batch. With `prefetch`, a rank posts the receive of its next
    micro batch before it computes the current one.
    """

    topology: Topology = field(default_factory=Topology)
    steps: int = 2
    micro_batches: int = 4
    layers: int = 3
    buckets: int = 2
    batched: bool = False
    prefetch: bool = False


def programs(job: Job) -> list[list[Item]]:
    """The program of every rank."""
    return [list(_program(job, rank)) for rank in range(job.topology.world)]


def _program(job: Job, rank: int) -> Iterator[Item]:
    yield Call(description=DEFAULT, op="all_reduce", sizes=(1,))
    yield Synchronize()
    for step in range(job.steps):
        yield from _step(job, rank, step)


def _step(job: Job, rank: int, step: int) -> Iterator[Item]:
    _, _, stage = job.topology.coordinates(rank)
    links = _Links(job, rank, step)
    warm_up = min(job.topology.pipeline - stage - 1, job.micro_batches)
    steady = job.micro_batches - warm_up
    for number in range(warm_up):
        yield from links.exchange(links.receive_forward())
        yield from _layers(job, number, backward=False)
        yield from links.exchange(links.send_forward())
    if steady:
        yield from links.exchange(links.receive_forward())
    for number in range(steady):
        if job.prefetch and number:
            yield Needs(PIPELINE)
        early = job.prefetch and number < steady - 1
        if early:
            yield from links.exchange(links.receive_forward(needed=False))
        yield from _layers(job, warm_up + number, backward=False)
        yield from links.exchange(links.send_forward(), links.receive_backward())
        yield from _layers(job, number, backward=True)
        last = number == steady - 1 or early
        yield from links.exchange(links.send_backward(), [] if last else links.receive_forward())
    for number in range(warm_up):
        yield from links.exchange(links.receive_backward())
        yield from _layers(job, steady + number, backward=True)
        yield from links.exchange(links.send_backward())
    for bucket in range(job.buckets):
        yield Call(description=DATA, op="_reduce_scatter_base", sizes=(4096 * (bucket + 1),), needed=False)
    yield Call(description=MODEL, op="all_reduce", sizes=(1,))
    yield Synchronize()
    for bucket in range(job.buckets):
        yield Call(description=DATA, op="_all_gather_base", sizes=(2048 * (bucket + 1),))


def _layers(job: Job, number: int, *, backward: bool) -> Iterator[Item]:
    for layer in range(job.layers):
        yield Call(description=TENSOR, op="_all_gather_base")
        if job.topology.experts:
            uneven = (TOKENS + (3 * number + layer) % ROLL_BACK, HIDDEN)
            yield Call(description=EXPERT, op="all_to_all", sizes=(16,))
            yield Synchronize()
            yield Call(description=EXPERT, op="all_to_all", sizes=uneven)
        yield Call(description=TENSOR, op="_reduce_scatter_base")
        if backward and layer == job.layers - 1:
            yield Call(description=TENSOR, op="all_reduce", sizes=(HIDDEN,))


class _Links:
    """The sends and receives of one rank with its neighbours in the pipeline."""

    def __init__(self, job: Job, rank: int, step: int) -> None:
        tensor, data, stage = job.topology.coordinates(rank)
        self._before = job.topology.rank(tensor, data, stage - 1) if stage else None
        self._behind = job.topology.rank(tensor, data, stage + 1) if stage + 1 < job.topology.pipeline else None
        self._batched = job.batched
        self._batches = step * 1000

    def receive_forward(self, *, needed: bool = True) -> list[Call]:
        return _point_to_point("recv", self._before, needed=needed)

    def receive_backward(self) -> list[Call]:
        return _point_to_point("recv", self._behind, needed=True)

    def send_forward(self) -> list[Call]:
        return _point_to_point("send", self._behind, needed=False)

    def send_backward(self) -> list[Call]:
        return _point_to_point("send", self._before, needed=False)

    def exchange(self, *calls: list[Call]) -> Iterator[Call]:
        """These calls, as one batch where the job batches them."""
        self._batches += 1
        for each in calls:
            for call in each:
                yield (
                    Call(
                        description=call.description,
                        op=call.op,
                        peer=call.peer,
                        needed=call.needed,
                        batch=self._batches if self._batched else None,
                    )
                )


def _point_to_point(op: str, peer: int | None, *, needed: bool) -> list[Call]:
    return [] if peer is None else [Call(description=PIPELINE, op=op, peer=peer, needed=needed)]
