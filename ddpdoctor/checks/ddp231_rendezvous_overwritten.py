"""The ranks wait in `init_process_group` for an address that is not their launcher's."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.launch.rendezvous_address import WrongRendezvous
from ddpdoctor.messages.majority import tie_note
from ddpdoctor.model import Finding, Rule, Severity, Where, group_ranks, verb

RULE = Rule(
    code="DDP231",
    name="rendezvous-overwritten",
    summary="the ranks look for each other at an address that is not the one that their launcher serves",
    severity=Severity.FAIL,
    shown_by="the program itself assigns MASTER_ADDR or MASTER_PORT: `grep -n MASTER_ *.py`",
    remedy="take the line out: the launcher sets MASTER_ADDR and MASTER_PORT. To run without a launcher too, write "
    '`os.environ.setdefault("MASTER_PORT", "29500")`',
    explains=("DDP203", "DDP204", "DDP205", "DDP307", "DDP401"),
)
UNNAMED = "sets environment variables whose names the source does not show"
OF_THE_CALL = (
    'call `init_process_group` without `init_method`, or with `"env://"`: the launcher sets MASTER_ADDR and MASTER_PORT. Where '
    "the program or its shell sets these variables, take that out"
)
OF_RANK_0 = "give every rank the same address: neither `init_method` nor MASTER_PORT may depend on the rank"


def check(wrong: WrongRendezvous) -> Iterator[Finding]:
    """One finding for all ranks that wait there."""
    if not wrong.ranks:
        return
    server = "rank 0" if wrong.of_rank_0 else "the launcher"
    serves = f"; {server} serves it at {wrong.given}" if wrong.given else ""
    names = sorted({line.name for line in wrong.overwrites if line.name})
    by = f": the program sets {' and '.join(names)}" if names else ""
    yield RULE.finding(
        f"{group_ranks(wrong.ranks)} {verb(wrong.ranks, 'looks', 'look')} for the rendezvous at {_addresses(wrong)}{serves}{by}"
        f"{tie_note(tied=wrong.tied)}",
        ranks=wrong.at_fault,
        where=[
            *(
                Where.at(line, rank=rank, note=f"sets {line.name} to {line.value}" if line.name else UNNAMED)
                for line, ranks in wrong.overwrites.items()
                for rank in ranks
            ),
            *(
                [Where.at(wrong.place, rank=wrong.at_fault[0], note="waiting for the other ranks")]
                if wrong.place
                else []
            ),
        ],
        remedy=OF_RANK_0 if wrong.of_rank_0 else None if wrong.overwrites else OF_THE_CALL,
        used=", ".join(wrong.used) or None,
        given=wrong.given,
    )


def _addresses(wrong: WrongRendezvous) -> str:
    """`localhost:4000`, or of several `localhost:4000 (rank 0) and localhost:4001 (rank 1)`."""
    if len(wrong.used) > 1:
        return " and ".join(f"{address} ({group_ranks(ranks)})" for address, ranks in wrong.used.items())
    return next(iter(wrong.used), "another address")
