"""Probes in which ranks with the same weights, buffers and batch computed different outputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ddpdoctor.analysis.majority import vote
from ddpdoctor.analysis.replicas.aligned_steps import devices_of, step_of
from ddpdoctor.analysis.replicas.divergences.results import LossComputedDifferently
from ddpdoctor.evidence.training_trace import Track


def different_forwards(tracks: Mapping[int, Track]) -> Iterator[LossComputedDifferently]:
    """The first probe in which ranks with the same weights, buffers and batch computed different outputs."""
    probes = {rank: {probe.forwards: probe for probe in track.probes} for rank, track in tracks.items()}
    common = set.intersection(*(set(mine) for mine in probes.values())) if probes else set()
    for forwards in sorted(common):
        seen = {rank: mine[forwards] for rank, mine in probes.items()}
        if len({(one.weights, one.input, tuple(one.outputs)) for one in seen.values()}) > 1:
            continue
        modules = next(iter(seen.values())).outputs
        first = next((name for name in modules if len({one.outputs[name] for one in seen.values()}) > 1), "")
        unstable = tuple(sorted(rank for rank, one in seen.items() if any(map(one.changed, modules))))
        if not first and not unstable:
            continue
        if not first:
            first = next(filter(seen[unstable[0]].changed, modules))
        decided = vote({rank: one.outputs[first] for rank, one in seen.items()})
        yield LossComputedDifferently(
            step=step_of(seen),
            ranks=decided.minority or unstable,
            module=first,
            modules=len(modules),
            tied=decided.tied,
            unstable=unstable,
            settings=tuple(_differing_settings({rank: one.settings for rank, one in seen.items()})),
            devices=devices_of(tracks, decided.minority or unstable),
        )
        return


def _differing_settings(settings: Mapping[int, Mapping[str, str]]) -> Iterator[str]:
    """What is set differently, as text."""
    for name in sorted({name for mine in settings.values() for name in mine}):
        values = {rank: mine.get(name, "unknown") for rank, mine in settings.items()}
        if len(set(values.values())) > 1:
            sides = vote(values).sides
            yield f"{name}: " + ", ".join(f"{values[side[0]]} on {_ranks(side)}" for side in sides)


def _ranks(side: Sequence[int]) -> str:
    return f"rank {side[0]}" if len(side) == 1 else "ranks " + ", ".join(map(str, side))
