"""What the samplers of the ranks draw, where that explains why their parts of the data are not those that they should be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ddpdoctor.analysis.replicas.divergences.data import SameSamples, SamplesOverlap
from ddpdoctor.evidence.training_trace import ShareSeen
from ddpdoctor.evidence.value_chains import ValueChains
from ddpdoctor.grouping import grouped
from ddpdoctor.messages import divergence, value_chains
from ddpdoctor.model import Finding, Rule, Where, group_ranks

OF_EPOCHS = "call `sampler.set_epoch(epoch)` on every rank, with the same number, before each epoch"
OF_SEEDS = "give the samplers of all ranks one seed: each draws its part of the same order"
OF_PARTS = (
    "make each sampler with the number of its own rank and of all ranks: `DistributedSampler(dataset)` without "
    "`num_replicas` and `rank` asks the process group"
)
OF_THE_WHOLE = "give each rank its own part of the data: DataLoader(..., sampler=DistributedSampler(dataset))"


def finding(
    rule: Rule,
    found: SameSamples | SamplesOverlap,
    message: str,
    chains: ValueChains | None,
    *,
    cause: str,
    numbers: Mapping[str, int] | None = None,
    is_whole: bool = False,
) -> Finding:
    """The finding of `rule` about the samples of an epoch, with what the samplers draw and the lines that made them.

    `is_whole`: each rank draws the whole data set.
    """
    shown = divergence.finding(
        rule,
        found,
        f"{message}{sentence(found.shares)}",
        cause=cause,
        note="iterates over the samples",
        remedy=OF_THE_WHOLE if is_whole else remedy(found.shares),
        numbers={
            "epoch": found.epoch,
            "drawn": found.drawn,
            "unique": found.unique,
            "repeats": found.drawn - found.unique,
            **(numbers or {}),
        },
    )
    shares = found.shares
    decided = (
        _decided(shares, found.ranks, chains) if shares else value_chains.made_for(chains, found.lines, found.ranks)
    )
    return replace(shown, where=(*decided, *where(shares, found.ranks), *shown.where))


def _decided(shares: Mapping[int, ShareSeen], ranks: Sequence[int], chains: ValueChains | None) -> tuple[Where, ...]:
    """Where the argument comes from that is not as it should be: the rank, the number of ranks, or the seed."""
    made = {rank: share.made for rank, share in shares.items() if share.made is not None}
    advice = remedy(shares)
    if advice == OF_SEEDS:
        return value_chains.depends_on_process(chains, made.values(), "seed", ranks)
    if advice != OF_PARTS:
        return ()
    if any(share.replicas != len(shares) for share in shares.values()):
        return value_chains.comes_from(chains, made, "num_replicas", ranks)
    computed = value_chains.depends_on_process(chains, made.values(), "rank", ranks)
    return computed or value_chains.comes_from(chains, made, "rank", ranks)


def remedy(shares: Mapping[int, ShareSeen]) -> str | None:
    """What to do about them; None where they are as they should be, or not known."""
    parts = {share.rank for share in shares.values()}
    if len(parts) < len(shares) or any(share.replicas != len(shares) for share in shares.values()):
        return OF_PARTS
    if len({share.seed for share in shares.values()}) > 1:
        return OF_SEEDS
    return OF_EPOCHS if len({share.epoch for share in shares.values()}) > 1 else None


def sentence(shares: Mapping[int, ShareSeen]) -> str:
    """`; the samplers are in epoch 1 on rank 0 and 0 on ranks 1-2`, or which parts they draw; empty where that is in order."""
    match remedy(shares):
        case None:
            return ""
        case advice if advice == OF_EPOCHS:
            return f"; the samplers are in epoch {_by_rank({rank: f'{one.epoch}' for rank, one in shares.items()})}"
        case advice if advice == OF_SEEDS:
            return f"; the samplers have seed {_by_rank({rank: f'{one.seed}' for rank, one in shares.items()})}"
        case _:
            parts = {rank: f"{share.rank} of {share.replicas}" for rank, share in shares.items()}
            return f"; the samplers draw part {_by_rank(parts)}"


def where(shares: Mapping[int, ShareSeen], culprits: Sequence[int]) -> tuple[Where, ...]:
    """The lines that made the samplers, or told them their epochs; culprits first."""
    advice = remedy(shares)
    if advice is None:
        return ()
    found = []
    for rank in sorted(shares, key=lambda rank: (rank not in culprits, rank)):
        share = shares[rank]
        line = (share.told or share.made) if advice == OF_EPOCHS else share.made
        if line is not None:
            found.append(Where.at(line, rank=rank, note=_note(share, advice)))
    return tuple(found)


def _note(share: ShareSeen, advice: str) -> str:
    if advice == OF_EPOCHS and share.told is not None:
        return f"tells the sampler epoch {share.epoch}"
    if advice == OF_EPOCHS:
        return "the sampler, which is told no epoch"
    return (
        f"the sampler with seed {share.seed}"
        if advice == OF_SEEDS
        else f"the sampler of part {share.rank} of {share.replicas}"
    )


def _by_rank(each: Mapping[int, str]) -> str:
    """`1 on rank 0 and 0 on ranks 1-2`."""
    by_text = grouped((text, rank) for rank, text in sorted(each.items()))
    return " and ".join(f"{text} on {group_ranks(ranks)}" for text, ranks in by_text.items())
