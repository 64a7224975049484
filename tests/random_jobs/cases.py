"""Random cases: a layout, a program, a fault, the settings of the recorder, and what must be said."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from tests.random_jobs.dump import Recorder, write
from tests.random_jobs.layout import NAMING, Mesh, mesh
from tests.random_jobs.program import STYLES, Item, Op, programs, shape
from tests.random_jobs.run import Event, Fault, Run

LAYOUTS = (
    (("pp", 4), ("dp", 2), ("tp", 2)),
    (("dp", 4), ("tp", 4)),
    (("pp", 2), ("dp", 4), ("tp", 2)),
    (("tp", 2), ("pp", 4), ("dp", 4)),
    (("dp", 2), ("cp", 2), ("tp", 4)),
    (("replicate", 2), ("shard", 8)),
    (("pp", 4), ("tp", 4), ("dp", 2)),
    (("dp", 8), ("ep", 4)),
    (("dp", 2), ("pp", 2), ("cp", 2), ("tp", 2)),
)
FAULTS = (
    "frozen", "two frozen", "blind", "two blind", "dead", "two dead", "left out", "left out last", "besides",
    "shape", "dtype", "operation", "swapped", "stuck", "stuck link", "finished", "moving",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Truth:
    """The codes that are right, and the ranks that must be named; any of them where several are as right."""

    codes: tuple[str, ...]
    ranks: tuple[tuple[int, ...], ...] = ((),)
    members: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Case:
    """One set of dumps, made again from its seed."""

    seed: int
    fault: str
    told: str
    truth: Truth
    run: Run
    recorder: Recorder
    lost: frozenset[int]
    old_seconds: float

    def write(self, folder: Path) -> None:
        """The dumps."""
        write(self.run, self.recorder, folder, {*self.lost}, old_seconds=self.old_seconds)


def case(seed: int, fault: str | None = None) -> Case | None:
    """The case of this seed; None where the fault has no effect in this job."""
    random = Random(seed)
    fault = fault or FAULTS[seed % len(FAULTS)]
    layout, naming = random.choice(LAYOUTS), random.choice(NAMING)
    where = mesh(layout, naming=naming, random=random)
    style = random.choice(STYLES)
    job = shape(style, random)
    written = programs(where, job)
    rank = random.choice((0, where.world // 2, where.world - 1, random.randrange(where.world)))
    recorder = Recorder(
        active=random.random() < 0.35,
        timing=random.random() < 0.3,
        frames=random.random() < 0.4,
        as_json=random.random() < 0.2,
        version=random.choice(("2.4", "2.9", "2.10")),
        apart_ns=random.choice((0, 10**8)),
        ring=random.choice((2000, 2000, 256)),
    )
    planted = Fault()
    truth = _plant(fault, where, written, planted, rank, random)
    run = Run(where, written, planted, random)
    if truth is None or run.finished != (fault in ("finished", "moving", "dtype")):
        return None
    if fault == "dtype" and (recorder.active or recorder.ring < 2000):
        return None
    truth = _reached(fault, truth, run, planted, recorder)
    old = 300.0
    if fault == "moving":
        last = max(event.ended or 0 for events in run.events for event in events)
        moment = int(last * random.uniform(0.2, 0.8))
        recorder = replace(recorder, early={one: moment + 40_000 * one for one in range(where.world)})
    told = f"{fault}, {style}, {'x'.join(f'{name}{size}' for name, size in layout)}, {naming}, rank {rank}, {recorder}"
    return Case(
        seed=seed,
        fault=fault,
        told=told,
        truth=truth,
        run=run,
        recorder=recorder,
        lost=frozenset(planted.lost),
        old_seconds=old,
    )


def _reached(fault: str, truth: Truth, run: Run, planted: Fault, recorder: Recorder) -> Truth:
    """The truth where not every planted fault came to pass: a rank that waits for the other culprit has not come to its own."""
    if fault in ("two frozen", "two blind"):
        came = run.halted if planted.halts else run.blinded
        # of two, one that stood still while it waited for the other one, or noticed no transfer, need not show
        return replace(truth, ranks=(came, tuple(one for one in came if run.shows(one, planted))))
    if fault == "two dead":
        return replace(truth, ranks=(*truth.ranks, run.halted))
    if fault in ("left out", "left out last"):
        (ranks,) = truth.ranks
        if not any(event.ended is None for event in run.events[ranks[0]]):
            truth = replace(truth, codes=(*truth.codes, "DDP307"))  # nothing tells it from a rank that hangs there
    if fault in ("shape", "operation", "besides", "left out") and recorder.active:
        (ranks,) = truth.ranks
        pairs = {event.group.ranks for event in run.events[ranks[0]] if len(event.group.ranks) == 2}
        if "DDP313" in truth.codes:
            pairs |= {*_partners_in_batches(run, ranks[0])}
        # two ranks, and nothing completed to compare them with others
        return replace(truth, codes=(*truth.codes, "DDP301", "DDP302"), ranks=(ranks, *pairs))
    if fault == "swapped" and recorder.active:
        (ranks,) = truth.ranks
        pairs = {tuple(sorted((ranks[0], other))) for other in range(run.mesh.world)}
        return replace(truth, ranks=(ranks, *pairs))  # no completed call to compare the two orders with
    return truth


def _partners_in_batches(run: Run, rank: int) -> Iterator[tuple[int, ...]]:
    """The two partners of each rank that sends and receives in one batch, where this rank is one of them."""
    for events in run.events:
        batches: dict[int, set[int]] = {}
        for event in events:
            if event.op.bundle is not None and event.op.peer is not None:
                batches.setdefault(event.op.bundle, set()).add(event.op.peer)
        yield from (tuple(sorted(partners)) for partners in batches.values() if rank in partners and len(partners) > 1)


def _plant(
    fault: str, where: Mesh, written: list[list[Item]], planted: Fault, rank: int, random: Random
) -> Truth | None:
    other = (rank + 1 + random.randrange(where.world - 1)) % where.world
    both = tuple(sorted((rank, other)))
    match fault:
        case "frozen" | "two frozen":
            for one in both if fault.startswith("two") else (rank,):
                planted.halts[one] = _place(written[one], random)
            return Truth(codes=("DDP307", "DDP313"), ranks=(tuple(sorted(planted.halts)),))
        case "blind" | "two blind":
            for one in both if fault.startswith("two") else (rank,):
                planted.blind[one] = _place(written[one], random)
            return Truth(codes=("DDP319",), ranks=(tuple(sorted(planted.blind)),))
        case "dead" | "two dead":
            for one in both if fault.startswith("two") else (rank,):
                planted.halts[one] = _place(written[one], random)
                planted.lost.add(one)
            return Truth(codes=("DDP408",), ranks=(tuple(sorted(planted.lost)),))
        case "left out" | "left out last":
            place = _place(written[rank], random) if fault == "left out" else _last(written[rank])
            op = written[rank].pop(place)
            between = isinstance(op, Op) and op.peer is not None
            return Truth(codes=("DDP313",) if between else ("DDP305",), ranks=((rank,),))
        case "besides":
            place = _place(written[rank], random, collective=True)
            op = written[rank][place]
            assert isinstance(op, Op)
            written[rank].insert(place, replace(op, sizes=(3,), line=7))
            return Truth(codes=("DDP305",), ranks=((rank,),))
        case "shape" | "dtype" | "operation":
            return _altered(fault, where, written, rank, random)
        case "swapped":
            return _swapped(written, rank, random)
        case "stuck" | "stuck link":
            return _stuck(fault, where, written, planted, rank, random)
        case _:
            return Truth(codes=())


def _places(program: list[Item], wanted: Callable[[Op], bool] = lambda _: True) -> list[int]:
    return [place for place, item in enumerate(program) if isinstance(item, Op) and wanted(item)]


def _place(program: list[Item], random: Random, *, collective: bool = False) -> int:
    """A place of a call behind the first tenth of the program."""
    places = _places(program, lambda op: op.peer is None or not collective)
    return places[random.randrange(max(1, len(places) // 10), len(places))]


def _last(program: list[Item]) -> int:
    return _places(program)[-1]


def _altered(fault: str, where: Mesh, written: list[list[Item]], rank: int, random: Random) -> Truth | None:
    strict = {"all_reduce", "_all_gather_base", "_reduce_scatter_base"}
    places = _places(written[rank], lambda op: op.name in strict)
    if not places:
        return None
    place = random.choice(places[len(places) // 10 :])
    op = written[rank][place]
    assert isinstance(op, Op)
    changed = {
        "shape": {"sizes": (op.sizes[0] + 8, *op.sizes[1:])},
        "dtype": {"dtype": "Half"},
        "operation": {"name": "broadcast"},
    }[fault]
    written[rank][place] = replace(op, **changed)
    return Truth(codes=({"shape": "DDP302", "dtype": "DDP303", "operation": "DDP301"}[fault],), ranks=((rank,),))


def _swapped(written: list[list[Item]], rank: int, random: Random) -> Truth | None:
    """Two calls of different groups next to each other, of which each joins the stream, in exchange."""
    program = written[rank]
    places = [
        place
        for place in range(len(program) // 10, len(program) - 1)
        for one, two in [(program[place], program[place + 1])]
        if isinstance(one, Op) and isinstance(two, Op)
        and one.kind != two.kind and one.joined and two.joined and one.peer is two.peer is None
    ]  # fmt: skip
    if not places:
        return None
    place = random.choice(places)
    program[place], program[place + 1] = program[place + 1], program[place]
    return Truth(codes=("DDP312",), ranks=((rank,),))


def _stuck(
    fault: str, where: Mesh, written: list[list[Item]], planted: Fault, rank: int, random: Random
) -> Truth | None:
    between = fault == "stuck link"
    places = _places(written[rank], lambda op: (op.peer is not None) == between)
    if not places:
        return None
    place = random.choice(places[len(places) // 10 :])
    chosen = written[rank][place]
    assert isinstance(chosen, Op)
    group = where.group(rank, chosen.kind)
    ends = {rank, chosen.peer} if between else {*group.ranks}
    number = 1 + sum(
        isinstance(item, Op) and (item.kind, item.peer, item.name) == (chosen.kind, chosen.peer, chosen.name)
        if between
        else isinstance(item, Op) and item.kind == chosen.kind and item.peer is None
        for item in written[rank][:place]
    )

    def stuck(met: Sequence[Event], at: int) -> bool:
        of_this = met[0].group is group and (met[0].op.peer is not None) == between
        return of_this and {one.rank for one in met} == ends and at >= number

    planted.stuck = stuck
    return Truth(codes=("DDP314",), ranks=((), (rank,)), members=tuple(sorted(ends)))


def cases(seeds: range) -> Iterator[Case]:
    """The cases of these seeds that have an effect."""
    for seed in seeds:
        found = case(seed)
        if found is not None:
            yield found
