"""One fault in a healthy job: what is changed, and what a report has to say of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random

from tests.stream_jobs.programs import Collective, Instruction, Synchronize, Transfers
from tests.stream_jobs.streams import Run, Trouble

Programs = list[list[Instruction]]

KINDS = (
    "frozen host",
    "stopped device",
    "dead rank",
    "left-out call",
    "stuck link",
    "extra call",
    "other order",
    "other size",
)
WEIGHTS = (5, 5, 4, 5, 4, 1, 1, 1)
WRONG_PROGRAM = frozenset({"DDP301", "DDP302", "DDP303", "DDP304", "DDP305", "DDP307", "DDP312", "DDP313", "DDP316"})
CODES = {
    "frozen host": frozenset({"DDP307", "DDP305", "DDP313", "DDP306"}),
    "stopped device": frozenset(
        {"DDP319", "DDP314", "DDP307"}
    ),  # DDP307 where its host waits for a kernel of the model
    "dead rank": frozenset({"DDP306", "DDP408", "DDP307"}),
    "left-out call": WRONG_PROGRAM,
    "stuck link": frozenset({"DDP314"}),
    "extra call": WRONG_PROGRAM,
    "other order": WRONG_PROGRAM,
    "other size": WRONG_PROGRAM,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What was planted. `ranks` are at fault, or cannot talk to each other."""

    kind: str
    ranks: tuple[int, ...]
    told: str
    programs: Programs
    trouble: Trouble = field(default_factory=Trouble)
    blind: dict[int, float] = field(default_factory=dict)
    """From when on the watchdog of a rank sees nothing end."""
    hidden: tuple[int, ...] = ()
    """Ranks at fault, too, that no collective of their peers shows: a report may name them."""

    @property
    def codes(self) -> frozenset[str]:
        """The codes with which a report may name it."""
        return CODES[self.kind]


def fault(random: Random, programs: Programs, healthy: Run) -> Fault | None:
    """A fault of a random kind, or None where the one that was drawn cannot be planted there."""
    kind = random.choices(KINDS, WEIGHTS)[0]
    ranks = _culprits(random, len(programs), several=kind in {"frozen host", "stopped device", "dead rank"})
    if kind == "frozen host":
        frozen = {rank: _somewhere(random, programs[rank]) for rank in ranks}
        if len(ranks) == 2 and random.random() < 0.5:  # both at the same line
            frozen = dict.fromkeys(ranks, min(frozen.values()))
        return Fault(
            kind=kind,
            ranks=ranks,
            told=f"from instruction {frozen} on",
            programs=programs,
            trouble=Trouble(frozen=frozen),
        )
    if kind in {"stopped device", "dead rank"}:
        end = max(host.clock for host in healthy.hosts)
        at = random.uniform(0.25, 0.95) * end
        times = dict.fromkeys(ranks, at)
        if kind == "dead rank":
            return Fault(kind=kind, ranks=ranks, told=f"at {at:.4f} s", programs=programs, trouble=Trouble(dead=times))
        blind = {rank: at - random.choice((0.0, 1e-3, 5e-3, 2e-2)) for rank in ranks}
        return Fault(
            kind=kind,
            ranks=ranks,
            told=f"at {at:.4f} s, unseen from {blind} s on",
            programs=programs,
            trouble=Trouble(stopped=times),
            blind=blind,
        )
    if kind == "stuck link":
        key = random.choice(sorted({key for key, _ in healthy.members}))
        cut = random.choice([one for one in healthy.members if one[0] == key])
        return Fault(kind=kind, ranks=healthy.members[cut], told=f"{cut}", programs=programs, trouble=Trouble(cut=cut))
    return _wrong_program(random, kind, programs, ranks[0])


def _wrong_program(random: Random, kind: str, programs: Programs, rank: int) -> Fault | None:
    mine = programs[rank]
    calls = [
        place
        for place, one in enumerate(mine)
        if isinstance(one, Collective | Transfers) and len(mine) // 5 < place < len(mine) - 2
    ]
    if kind in {"extra call", "other size", "other order"}:
        calls = [place for place in calls if isinstance(mine[place], Collective)]
    if kind == "other size":  # of an all-to-all, ranks may send as much as they like
        calls = [place for place in calls if getattr(mine[place], "op", "") not in {"all_to_all", "barrier"}]
    if not calls:
        return None
    place = random.choice(calls)
    found = mine[place]
    changed: list[Instruction]
    if kind == "left-out call":
        changed = [*mine[:place], *mine[place + 1 :]]
    elif kind == "extra call":
        changed = [*mine[:place], found, *mine[place:]]
    elif kind == "other size":
        assert isinstance(found, Collective)
        changed = [*mine[:place], replace(found, inputs=(found.inputs[0] + 1, *found.inputs[1:])), *mine[place + 1 :]]
    else:
        after = next((one for one in calls if one > place and _group(mine[one]) != _group(found)), None)
        if after is None or any(isinstance(one, Synchronize) for one in mine[place:after]):
            return None
        changed = [*mine[:place], mine[after], *mine[place:after], *mine[after + 1 :]]
    return Fault(
        kind=kind,
        ranks=(rank,),
        told=f"instruction {place}: {_brief(found)}",
        programs=[*programs[:rank], changed, *programs[rank + 1 :]],
    )


def _group(one: Instruction) -> str:
    return one.group.name if isinstance(one, Collective | Transfers) else ""


def _brief(one: Instruction) -> str:
    if isinstance(one, Collective):
        return f"{one.op} of {one.group.name} ({one.group.axis}) {one.group.ranks}{' async' if one.tag else ''}"
    assert isinstance(one, Transfers)
    parts = ", ".join(f"{'to' if part.send else 'from'} {part.peer}" for part in one.parts)
    return f"transfers of {one.group.name} ({one.group.axis}): {parts}{' batched' if one.batched else ''}"


def _culprits(random: Random, world: int, *, several: bool) -> tuple[int, ...]:
    first = random.choice((0, world // 2, world - 1, random.randrange(world)))
    if several and random.random() < 0.3:
        return tuple(sorted({first, random.randrange(world)}))
    return (first,)


def _somewhere(random: Random, program: Sequence[Instruction]) -> int:
    return random.randrange(len(program) // 4, len(program) - 1)
