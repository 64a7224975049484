"""Whether the replicas agree: step by step as a picture, then each tensor that differs with its ranks and values."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from ddpdoctor.analysis.replicas.aligned_steps import aligned, step_of
from ddpdoctor.derivation import Deriver
from ddpdoctor.evidence import Evidence, by_rank
from ddpdoctor.evidence.replicas import Replicas, Side
from ddpdoctor.evidence.training_trace import Track
from ddpdoctor.model import group_ranks
from ddpdoctor.render.html.charts import Chart, Series, linear_axis

SHOWN_TENSORS = 60
SHOWN_STEPS = 48
CELL, ROW, LEFT, TOP = 14, 18, 70, 24


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCell:
    """One rank after one step."""

    x: int
    """The left edge, in pixels."""
    y: int
    """The upper edge, in pixels."""
    state: str
    """`same`, `differs` (from the majority) or `unknown`."""
    hint: str
    """Rank, step and state, shown while the pointer is on the cell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPicture:
    """Which ranks had the weights of the majority after each audited step."""

    ranks: tuple[tuple[int, int], ...]
    """Each rank with its upper edge."""
    steps: tuple[tuple[int, int], ...]
    """Marked steps with their left edge."""
    cells: tuple[StepCell, ...]
    """One per rank and step shown, step by step."""
    width: int
    """Of the whole picture, in pixels."""
    height: int
    """Of the whole picture, in pixels."""
    sentence: str
    """At which step the replicas differ first, or that they agree."""
    row: int = ROW
    """Pixels from one rank to the next."""
    cell: int = CELL
    """Pixels from one step to the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferingTensor:
    """One tensor that differs."""

    name: str
    """The tensor's name in the model or the optimizer."""
    role: str
    """`parameter`, `buffer`, or another kind of tensor."""
    what: str
    """What differs: an aspect such as the shape, or the element and how many more there are."""
    sides: tuple[tuple[str, str], ...]
    """Ranks and what they have."""
    difference: str
    """How far apart the values are, or the kind of difference; empty where the structure differs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSection:
    """The comparison of the replicas."""

    sentence: str
    """How many tensors were compared on which ranks and how many differ; empty where no tensors were compared."""
    picture: StepPicture | None
    """The comparison step by step; None without training traces of several ranks."""
    charts: tuple[Chart, ...]
    """The loss of each rank; empty where fewer than two steps have one, or of more than eight ranks."""
    tensors: tuple[DifferingTensor, ...]
    """The first tensors that differ, those of another structure before those of other values."""
    more: int
    """How many tensors that differ have no row."""


def replica_section(evidence: Evidence, derive: Deriver) -> ReplicaSection | None:
    """The section; None where no replicas were compared."""
    replicas = derive(Replicas)
    tracks = by_rank(evidence.per_rank(Track))
    if replicas is None and not tracks:
        return None
    rows = tuple(_tensors(replicas)) if replicas is not None else ()
    return ReplicaSection(
        sentence=_sentence(replicas) if replicas is not None else "",
        picture=_picture(tracks),
        charts=_losses(tracks),
        tensors=rows[:SHOWN_TENSORS],
        more=max(0, len(rows) - SHOWN_TENSORS),
    )


def _sentence(replicas: Replicas) -> str:
    at = f" after step {replicas.step}" if replicas.step is not None else ""
    of = f" of {replicas.steps}" if replicas.step is not None and replicas.steps is not None else ""
    size = f" ({replicas.bytes:,} bytes)" if replicas.bytes else ""
    differing = len(replicas.values) + len(replicas.structure)
    verb = "differ" if differing != 1 else "differs"
    return f"{replicas.tensors} tensors{size} on {group_ranks(replicas.ranks)}{at}{of}: {differing or 'none'} {verb}."


def _tensors(replicas: Replicas) -> Iterator[DifferingTensor]:
    for structure in replicas.structure:
        yield DifferingTensor(
            name=structure.name,
            role=structure.role,
            what=structure.aspect,
            sides=_sides(structure.sides, ()),
            difference="",
        )
    for value in replicas.values:
        element = value.element
        index = f"element {list(element.index)}" if element is not None else value.extent
        gap = f"{element.difference:.3g}" if element is not None and element.difference is not None else value.kind
        yield DifferingTensor(
            name=value.name,
            role=value.role,
            what=f"{index}, {value.extent}" if element is not None and value.extent else index,
            sides=_sides(value.sides, element.values if element is not None else ()),
            difference=gap,
        )


def _sides(sides: tuple[Side, ...], values: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    return tuple(
        (group_ranks(side.ranks), values[number] if number < len(values) else side.says)
        for number, side in enumerate(sides)
    )


def _picture(tracks: dict[int, Track]) -> StepPicture | None:
    steps = aligned(tracks) if len(tracks) > 1 else []
    if not steps:
        return None
    digests = [{rank: one.after for rank, one in seen.items()} for seen in steps]
    diverged = next((place for place, each in enumerate(digests) if len({*each.values()}) > 1), None)
    places = _thinned(len(steps), diverged)
    ranks = sorted(tracks)
    rows = {rank: TOP + ROW * number for number, rank in enumerate(ranks)}
    cells = []
    for column, place in enumerate(places):
        votes = Counter(digests[place].values()).most_common(2)
        majority = votes[0][0] if votes and (len(votes) == 1 or votes[0][1] > votes[1][1]) else None
        number = step_of(steps[place])
        for rank in ranks:
            own = digests[place].get(rank)
            state = "unknown" if own is None else "same" if own == majority or len(votes) == 1 else "differs"
            cells.append(
                StepCell(x=LEFT + CELL * column, y=rows[rank], state=state, hint=f"rank {rank}, step {number}: {state}")
            )
    numbers = [step_of(steps[place]) for place in places]
    every = math.ceil(len(places) / 8)
    sentence = (
        f"The replicas agree after all {len(steps)} audited steps."
        if diverged is None
        else f"The replicas differ first after step {step_of(steps[diverged])}."
    )
    return StepPicture(
        ranks=tuple(rows.items()),
        steps=tuple((numbers[column], LEFT + CELL * column) for column in range(0, len(places), every)),
        cells=tuple(cells),
        width=LEFT + CELL * len(places) + 30,
        height=TOP + ROW * len(ranks) + 6,
        sentence=sentence,
    )


def _thinned(count: int, diverged: int | None) -> list[int]:
    """At most `SHOWN_STEPS` of `count` places: those around the first difference, else spread over all."""
    if count <= SHOWN_STEPS:
        return [*range(count)]
    if diverged is None:
        return sorted({round(number * (count - 1) / (SHOWN_STEPS - 1)) for number in range(SHOWN_STEPS)})
    first = max(0, min(diverged - SHOWN_STEPS // 2, count - SHOWN_STEPS))
    return [*range(first, first + SHOWN_STEPS)]


def _losses(tracks: dict[int, Track]) -> tuple[Chart, ...]:
    curves = {
        rank: [
            (float(step.step), step.loss) for step in track.steps if step.loss is not None and math.isfinite(step.loss)
        ]
        for rank, track in sorted(tracks.items())
    }
    shown = {rank: points for rank, points in curves.items() if len(points) > 1}
    if not shown or len(shown) > 8:
        return ()
    points = [point for each in shown.values() for point in each]
    return (
        Chart(
            title="Loss by rank",
            sentence=f"The loss of each rank at its audited steps, {len(shown)} ranks.",
            x=linear_axis("step", [x for x, _ in points]),
            y=linear_axis("loss", [y for _, y in points]),
            series=tuple(
                Series(name=f"rank {rank}", points=each, color=number % 8)
                for number, (rank, each) in enumerate(shown.items())
            ),
        ),
    )
