"""Several observers' evidence of one job as one: a case a node, or dumps from here and logs from there."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from ddpdoctor.evidence import Evidence, RankFacts, noun_of
from ddpdoctor.evidence.source import SourceCode


def join(parts: Sequence[Evidence], *, one_job: bool = True) -> Evidence:
    """All that the parts know. Where two hold one kind of fact of one rank, the first is kept.

    Args:
        parts: The evidence to put together; the earlier wins.
        one_job: They are of one job: a note says where two parts disagree about a rank. Otherwise they are of several
            commands that ran one after the other, where later facts may differ and none of them need have had a launcher.
    """
    job: dict[type, Any] = {}
    ranks: dict[int, dict[type, Any]] = {}
    hosts: dict[int, str] = {}
    notes: list[str] = []
    for part in parts:
        for fact in part.job:
            held = job.setdefault(type(fact), fact)
            if isinstance(fact, SourceCode) and fact is not held:
                job[SourceCode] = held.and_of(fact)
        for facts in part.ranks:
            hosts[facts.rank] = hosts.get(facts.rank) or facts.host
            of_rank = ranks.setdefault(facts.rank, {})
            twice = [
                type(fact).__name__
                for fact in facts.facts
                if (held := of_rank.setdefault(type(fact), fact)) is not fact and held != fact
            ]
            if one_job:
                notes += [
                    f"rank {facts.rank}: two of the files differ in its {noun_of(kind)}; the first is used"
                    for kind in twice
                ]
        notes += part.notes
    return Evidence(
        job=tuple(job.values()),
        ranks=tuple(
            RankFacts(rank=rank, host=hosts[rank], facts=tuple(held.values())) for rank, held in sorted(ranks.items())
        ),
        missing=tuple(missing for part in parts for missing in part.missing),
        notes=tuple(dict.fromkeys(notes)),
        undecided=tuple(dict.fromkeys(reason for part in parts for reason in part.undecided)),
        launched=(any if one_job else all)(part.launched for part in parts),
        about_job=any(part.about_job for part in parts),
        meta={key: value for part in reversed(parts) for key, value in part.meta.items()},
        earlier=tuple(
            join([known for known in attempt if known is not None])
            for attempt in zip_longest(*(part.earlier for part in parts))
        ),
    )
