"""Optimizers that share the parameters out among the ranks, as in ZeRO-1 written by hand: what is equal by design there.

Each rank steps its own part of the parameters, and the program sends the result to the others before the next forward. Right
after the step the parameters differ, and the optimizer's state is a partition. Before the next forward they must be equal.

Parameters that no wrapper holds are each rank's own where ranks exchange activations: embedding tables or experts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from ddpdoctor.analysis.replicas.aligned_steps import ByRank
from ddpdoctor.analysis.replicas.gradient_sync import EXACT, STEPPED
from ddpdoctor.evidence.training_trace import Track
from ddpdoctor.grouping import grouped
from ddpdoctor.whole_numbers import whole_number


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharding:
    """Which parameters ranks step on their own in one step."""

    owners: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """For each parameter that only some ranks step: these ranks."""
    copies: frozenset[str] = frozenset()
    """What no wrapper holds, and each rank has another one: its part of the model, of the parameters, or of a copy of them."""

    @property
    def names(self) -> frozenset[str]:
        """The parameters that may differ right after the step."""
        return self.copies.union(self.owners)


def sharding(seen: ByRank, tracks: Mapping[int, Track]) -> Sharding | None:
    """How the ranks share the parameters out in this step; None where all ranks step the same ones."""
    copies = _given_gradients(seen) or _parts_of_the_model(seen) or _copies(seen, tracks)
    if copies:
        return Sharding(copies=copies)
    owners = _owners(seen)
    if owners and (_are_left_local(seen, owners) or (_may_hold_the_same(seen) and not _are_sent(seen, tracks))):
        return None
    return Sharding(owners=owners) if owners else None


def differs_after(seen: ByRank, tracks: Mapping[int, Track], shared: Sharding | None) -> bool:
    """Whether weights differ that should be equal: after the step, and before it where ranks step their own."""
    if shared is None:
        return len({one.after for one in seen.values()}) > 1
    if len({one.weights for one in seen.values()}) > 1:
        return True
    tables = [tracks[rank].tables[one.after].digests for rank, one in seen.items()]
    kept = [{name: digest for name, digest in table.items() if name not in shared.names} for table in tables]
    return any(table != kept[0] for table in kept)


def _owners(seen: ByRank) -> dict[str, tuple[int, ...]]:
    """The owners of the parameters that not all ranks step, where two ranks step either the same of them or no common one."""
    stepped = {rank: frozenset(one.gradients) for rank, one in seen.items()}
    common = frozenset.intersection(*stepped.values())
    own = {rank: names - common for rank, names in stepped.items()}
    parts = {*own.values()}
    if len(parts) < 2 or not all(parts) or len(frozenset().union(*parts)) < sum(map(len, parts)):
        return {}
    return {name: tuple(sorted(rank for rank in own if name in own[rank])) for names in parts for name in names}


def _are_left_local(seen: ByRank, owners: Mapping[str, tuple[int, ...]]) -> bool:
    """Whether gradients are what the backward of one rank gave, and it is known why: a wrapper was bypassed, or told so."""
    return any(
        (one.bypassed or one.synchronised is False)
        and all(
            gradient.local is not None and math.isclose(gradient.reduced, gradient.local, rel_tol=EXACT)
            for name, gradient in one.gradients.items()
            if name in owners
        )
        for one in seen.values()
    )


def _may_hold_the_same(seen: ByRank) -> bool:
    """Whether each optimizer holds as many parameters as all ranks have gradients for: they may have taken other branches."""
    everything = {name for one in seen.values() for name in one.gradients}
    held = [
        sum(whole_number(text) or 0 for name, text in one.settings.items() if name.startswith(STEPPED))
        for one in seen.values()
    ]
    return all(count >= len(everything) for count in held)


def _are_sent(seen: ByRank, tracks: Mapping[int, Track]) -> bool:
    """Whether weights are equal again when ranks were next looked at, or were after a step of the same parts."""
    later = [next((one for one in tracks[rank].steps if one.step > of.step), None) for rank, of in seen.items()]
    if all(later):
        return len({(one.step, one.weights) for one in later if one is not None}) == 1
    earlier = [[one for one in tracks[rank].steps if one.step < of.step][-1:] for rank, of in seen.items()]
    same = all(
        before and before[0].gradients.keys() == of.gradients.keys()
        for before, of in zip(earlier, seen.values(), strict=True)
    )
    return same and len({of.weights for of in seen.values()}) == 1


def _given_gradients(seen: ByRank) -> frozenset[str]:
    """Where no model is wrapped, the parameters that are no part of the backward: FSDP or the program gave them their gradients.

    These are parts of larger tensors, or copies. Where not all ranks were given the same, they are each rank's own.
    """
    if not all("backward" in one.lines and "grad" not in one.lines for one in seen.values()):
        return frozenset()
    found = grouped((name, gradient) for one in seen.values() for name, gradient in one.gradients.items())
    given = {
        name: [one.digest for one in of_ranks]
        for name, of_ranks in found.items()
        if all(one.standing == "no model" and one.local is None for one in of_ranks)
    }
    same = all(len(digests) == len(seen) and len({*digests}) == 1 for digests in given.values())
    return frozenset() if same else frozenset(given)


def _parts_of_the_model(seen: ByRank) -> frozenset[str]:
    """The parameters outside every wrapper, where every rank's backward sent gradients to the ranks that computed activations."""
    if not all(one.exchanged for one in seen.values()):
        return frozenset()
    return frozenset(
        name for one in seen.values() for name, gradient in one.gradients.items() if gradient.standing == "outside"
    )


def _copies(seen: ByRank, tracks: Mapping[int, Track]) -> frozenset[str]:
    """What the optimizers step, where that is nothing of the wrapped models, and on each rank fewer elements than these have.

    The program gave them their gradients itself, and these differ between ranks.
    """
    first = next(iter(seen.values())).gradients
    for rank, one in seen.items():
        if not one.gradients or one.gradients.keys() != first.keys():
            return frozenset()
        if any(gradient.standing != "outside" or gradient.local is not None for gradient in one.gradients.values()):
            return frozenset()
        shapes = tracks[rank].tables[one.after].shapes
        sizes = {name: math.prod(shapes.get(name, ())) for name in shapes}
        trained = {kind.name for kind in tracks[rank].kinds if kind.structure.get("requires_grad") == "True"}
        if sum(sizes.get(name, 0) for name in one.gradients) >= sum(sizes.get(name, 0) for name in trained):
            return frozenset()
    differ = (len({one.gradients[name].digest for one in seen.values()}) > 1 for name in first)
    return frozenset(first) if all(differ) else frozenset()
