"""What goes wrong in a simulated job: to a host, to a device, to a link, or in a rank's program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from tests.simulated_jobs.program import Call, Item

Programs = list[list[Item]]


@dataclass(slots=True, kw_only=True)
class Disturbance:
    """What happens at which position of a rank's program.

    A host that stops enqueues nothing from there on; a device that stops begins nothing from there on. Where completions
    go unnoticed, the device takes part in its collectives but the rank never learns that they ended. `without_dump` are
    ranks that leave no dump. `stuck` holds groups with the first number from which their calls (or their sends and
    receives, where the flag is True) do not end.
    """

    host_stops: dict[int, int] = field(default_factory=dict)
    device_stops: dict[int, int] = field(default_factory=dict)
    completions_unnoticed: dict[int, int] = field(default_factory=dict)
    without_dump: set[int] = field(default_factory=set)
    stuck: dict[tuple[str, bool], int] = field(default_factory=dict)

    def is_stuck(self, group: str, between: bool, seq: int) -> bool:
        """Whether call number `seq` of this group never ends."""
        return (group, between) in self.stuck and seq >= self.stuck[group, between]


def place_of(program: Sequence[Item], number: int, *, where: Callable[[Call], bool] = lambda _: True) -> int:
    """The position of the `number`th call for which `where` holds; negative numbers count from the end."""
    places = [place for place, item in enumerate(program) if isinstance(item, Call) and where(item)]
    return places[number]


def left_out(programs: Programs, rank: int, place: int) -> None:
    """The rank does not make the call at this place."""
    del programs[rank][place]


def called_besides(programs: Programs, rank: int, place: int, call: Call) -> None:
    """The rank makes one more call before the one at this place."""
    programs[rank].insert(place, call)


def in_other_shape(programs: Programs, rank: int, place: int) -> None:
    """The rank gives the call at this place a larger tensor."""
    call = programs[rank][place]
    assert isinstance(call, Call)
    programs[rank][place] = replace(call, sizes=(call.sizes[0] + 8, *call.sizes[1:]))


def of(description: str, op: str | None = None) -> Callable[[Call], bool]:
    """Whether a call is of a group with this description, and of this operation."""
    return lambda call: call.description == description and (op is None or call.op == op)
