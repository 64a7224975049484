"""Evidence for every rule, in a file named like the rule's: `SICK` and `HEALTHY`; tests/laws/test_catalogue.py judges it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from ddpdoctor.evidence import Evidence, RankFacts
from ddpdoctor.model import Measure, Severity, Where


@dataclass(frozen=True, kw_only=True)
class Sick:
    """Evidence of one fault, and the finding that it must give. What a case leaves out, the finding must not have."""

    evidence: Evidence
    """What is known of the job. Every rule judges it."""

    says: str
    """The whole message."""

    ranks: tuple[int, ...] = ()
    """The culprits."""

    hosts: tuple[str, ...] = ()
    """The hosts of the culprits."""

    where: tuple[str, ...] = ()
    """The lines of code in the finding's order, each as `place_text` writes it."""

    measured: Mapping[str, Measure] = field(default_factory=dict)
    """All keys and values as JSON shows them, floats to six digits."""

    severity: Severity | None = None
    """Needed where the finding's severity is not the rule's own."""

    also: tuple[str, ...] = ()
    """The codes of the symptoms that the finding explains and folds."""


def place_text(where: Where) -> str:
    """One place on one line: `rank 3 /home/me/job/train.py:88 train_step`, without what is not known."""
    rank = [] if where.rank is None else [f"rank {where.rank}"]
    return " ".join([*rank, f"{where.file}:{where.line}", *filter(None, [where.function])])


def at(place: str, *ranks: int) -> tuple[str, ...]:
    """The same line on several ranks, as `Sick.where` has it: `at("/job/train.py:61 train_step", 2, 0)`."""
    return tuple(f"rank {rank} {place}" for rank in ranks)


def as_json(value: Measure) -> Any:
    """`value` as a reader of JSON gets it."""
    return json.loads(json.dumps(value))


def close_to(value: Any) -> Any:
    """What equals each JSON value that is `value` but for the rounding of its floats."""
    if isinstance(value, float):
        return pytest.approx(value, rel=1e-5)
    if isinstance(value, dict):
        return {key: close_to(item) for key, item in value.items()}
    return [close_to(item) for item in value] if isinstance(value, list) else value


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
