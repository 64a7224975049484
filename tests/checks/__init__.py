"""Evidence for every rule, in a file named like the rule's: `SICK` and `HEALTHY`; tests/laws/test_catalogue.py judges it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ddpdoctor.evidence import Evidence, RankFacts
from ddpdoctor.model import Severity


@dataclass(frozen=True, kw_only=True)
class Sick:
    """Evidence of one fault, and what must be said of it: the whole sentence, and the culprits."""

    evidence: Evidence
    says: str
    ranks: tuple[int, ...] = ()
    hosts: tuple[str, ...] = ()
    severity: Severity | None = None  # where the rule has several
    also: tuple[str, ...] = ()  # codes of symptoms that the finding explains and folds


def one_host(*facts: Any) -> Evidence:
    """What `ddpdoctor env` knows of one host that no launcher started."""
    return Evidence(ranks=(RankFacts(rank=0, host="host-a", facts=facts),), launched=False)


def ranks(*each: Any, per_host: int = 1, launched: bool = True) -> Evidence:
    """A job whose rank N says `each[N]` (one fact, or a tuple of several); `per_host` ranks on host-a, host-b, ..."""
    return Evidence(
        ranks=tuple(
            RankFacts(
                rank=rank,
                host=f"host-{chr(ord('a') + rank // per_host)}",
                facts=facts if isinstance(facts, tuple) else (facts,),
            )
            for rank, facts in enumerate(each)
        ),
        launched=launched,
    )


def job(*facts: Any) -> Evidence:
    """What is known of a job as a whole."""
    return Evidence(job=facts)
