"""What the samplers of the ranks draw, where that explains why their parts of the data are not those that they should be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ddpdoctor.evidence.training_trace import ShareSeen
from ddpdoctor.model import Where, group_ranks

OF_EPOCHS = "call `sampler.set_epoch(epoch)` on every rank, with the same number, before each epoch"
OF_PARTS = (
    "make each sampler with the number of its own rank and of all ranks: `DistributedSampler(dataset)` without "
    "`num_replicas` and `rank` asks the process group"
)


def remedy(shares: Mapping[int, ShareSeen]) -> str | None:
    """What to do about them; None where they are as they should be, or not known."""
    if not shares:
        return None
    return OF_PARTS if _parts_are_wrong(shares) else OF_EPOCHS if _epochs_differ(shares) else None


def sentence(shares: Mapping[int, ShareSeen]) -> str:
    """`; the samplers are in epoch 1 on rank 0 and 0 on ranks 1-2`, or which parts they draw; empty where that is in order."""
    match remedy(shares):
        case None:
            return ""
        case told if told == OF_EPOCHS:
            each = {rank: f"{share.epoch}" for rank, share in shares.items()}
            return f"; the samplers are in epoch {_by_rank(each)}"
        case _:
            each = {rank: f"{share.rank} of {share.replicas}" for rank, share in shares.items()}
            return f"; the samplers draw part {_by_rank(each)}"


def where(shares: Mapping[int, ShareSeen], culprits: Sequence[int]) -> tuple[Where, ...]:
    """The lines that made the samplers, or told them their epochs; culprits first."""
    told = remedy(shares)
    if told is None:
        return ()
    found = []
    for rank in sorted(shares, key=lambda rank: (rank not in culprits, rank)):
        share = shares[rank]
        line = share.made if told == OF_PARTS else share.told or share.made
        note = (
            f"the sampler of part {share.rank} of {share.replicas}"
            if told == OF_PARTS
            else f"tells the sampler epoch {share.epoch}"
            if share.told is not None
            else "the sampler, which is told no epoch"
        )
        if line is not None:
            found.append(Where.at(line, rank=rank, note=note))
    return tuple(found)


def _parts_are_wrong(shares: Mapping[int, ShareSeen]) -> bool:
    """Whether the parts are not as many as the ranks, each with its own."""
    parts = {share.rank for share in shares.values()}
    return len(parts) < len(shares) or any(share.replicas != len(shares) for share in shares.values())


def _epochs_differ(shares: Mapping[int, ShareSeen]) -> bool:
    return len({share.epoch for share in shares.values()}) > 1


def _by_rank(each: Mapping[int, str]) -> str:
    """`1 on rank 0 and 0 on ranks 1-2`."""
    by_text: dict[str, list[int]] = {}
    for rank, text in sorted(each.items()):
        by_text.setdefault(text, []).append(rank)
    return " and ".join(f"{text} on {group_ranks(ranks)}" for text, ranks in by_text.items())
