"""The ranks wait in `init_process_group` for an address that is not their launcher's."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.launch.rendezvous_address import WrongRendezvous
from ddpdoctor.messages.collectives import verb
from ddpdoctor.model import Finding, Rule, Severity, Where, group_ranks

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


def check(wrong: WrongRendezvous) -> Iterator[Finding]:
    """One finding for all ranks that wait there."""
    if not wrong.ranks:
        return
    at = f" at {wrong.used}" if wrong.used else " at another address"
    serves = f"; the launcher serves it at {wrong.given}" if wrong.given else ""
    names = sorted({line.name for line in wrong.overwrites})
    by = f": the program sets {' and '.join(names)}" if names else ""
    yield RULE.finding(
        f"{group_ranks(wrong.ranks)} {verb(wrong.ranks, 'looks', 'look')} for the rendezvous{at}{serves}{by}",
        ranks=wrong.ranks,
        where=[
            *(
                Where.at(line, rank=rank, note=f"sets {line.name} to {line.value}")
                for line in wrong.overwrites
                for rank in wrong.ranks
            ),
            *([Where.at(wrong.place, rank=wrong.ranks[0], note="waiting for the other ranks")] if wrong.place else []),
        ],
        used=wrong.used,
        given=wrong.given,
    )
