"""What TORCH_DISTRIBUTED_DEBUG=DETAIL says of ranks that were about to make different collectives."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ddpdoctor.analysis.crashes.failure import Failure
from ddpdoctor.analysis.majority import Vote, vote
from ddpdoctor.model import Where, group_ranks

_RUNNING = re.compile(
    r"Rank (?P<rank>\d{1,18}) is running (?:inconsistent )?collective: "
    r"CollectiveFingerPrint\((?:SequenceNumber=(?P<seq>\d{1,18}),? ?)?"
    r"OpType=(?P<op>\w+)(?:, ?TensorShape=\[(?P<shape>[\d, ]*)\])?"
)
_NAMES = {"ALLREDUCE": "all_reduce", "ALLGATHER": "all_gather", "_ALLGATHER_BASE": "all_gather_into_tensor"}
_NAMES |= {
    "_REDUCE_SCATTER_BASE": "reduce_scatter_tensor",
    "ALLTOALL": "all_to_all",
    "ALLTOALL_BASE": "all_to_all_single",
}


@dataclass(frozen=True, slots=True)
class Signature:
    """One rank's collective as PyTorch compared it."""

    op: str
    """The operation, as the flight recorder names it."""
    seq: str
    """Its sequence number in digits; empty where the message has none."""
    shape: str
    """The tensor's shape as PyTorch prints it; empty where the message has none."""

    @property
    def name(self) -> str:
        """`broadcast #4`."""
        return f"{self.op} #{self.seq}" if self.seq else self.op


@dataclass(frozen=True, slots=True, kw_only=True)
class Signatures:
    """What each rank was about to do, and the lines where ranks said so."""

    made: Mapping[int, Signature]
    """By rank, the collective that it was about to make."""
    where: tuple[Where, ...]
    """The lines at which ranks raised the error."""

    @property
    def sides(self) -> Vote:
        """The ranks by what they were about to do."""
        return vote(self.made)

    def about_to(self, words: str) -> str:
        """`rank 0 was about to WORDS where ranks 1-2 were about to WORDS`, the minority first.

        `{name}` and `{shape}` in `words` stand for what each side called, and with what.
        """
        sides = self.sides.sides if self.sides.tied else self.sides.sides[::-1]
        called = [(ranks, self.made[ranks[0]]) for ranks in sides]
        return " where ".join(
            f"{group_ranks(ranks)} {'was' if len(ranks) == 1 else 'were'} about to {words.format(name=one.name, shape=one.shape)}"
            for ranks, one in called
        )


def signatures_of(failures: Iterable[Failure]) -> Signatures | None:
    """What the messages of these failures tell together, or None where they tell of no two sides.

    PyTorch counts ranks within the group: where that is not the job's own count, each rank is believed about itself alone.
    """
    own: dict[int, Signature] = {}
    all_ranks: dict[int, Signature] = {}
    in_group = False
    each = [*failures]
    for failure in each:
        found = {int(match["rank"]): _signature(match) for match in _RUNNING.finditer(failure.text)}
        all_ranks |= found
        if found and failure.rank is not None:
            number, own[failure.rank] = next(iter(found.items()))
            in_group |= number != failure.rank
    made = own if in_group else all_ranks
    if len({*made.values()}) < 2:
        return None
    return Signatures(made=made, where=tuple(where for failure in each for where in failure.where("refused here")))


def differ_in_operation(text: str) -> bool:
    """Whether the two collectives in this message are different operations, or different calls of one sequence.

    A message that is cut off behind the first one does not tell, and counts as well.
    """
    made = [(match["op"], match["seq"]) for match in _RUNNING.finditer(text)]
    return len(made) == 1 or len({*made}) > 1


def first_side(text: str) -> tuple[int, Signature] | None:
    """The rank that is named first, and what it was about to do; None where the message is cut off before that."""
    match = _RUNNING.search(text)
    return (int(match["rank"]), _signature(match)) if match is not None else None


def recorders_name(op_type: str) -> str:
    """The name that the recorder has for what C++ calls `ALLREDUCE`."""
    return _NAMES.get(op_type, op_type.lower())


def _signature(match: re.Match[str]) -> Signature:
    return Signature(op=recorders_name(match["op"]), seq=match["seq"] or "", shape=match["shape"] or "")
