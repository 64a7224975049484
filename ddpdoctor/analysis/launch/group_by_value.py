"""Which ranks set a variable, in words for a message."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.host import Environment
from ddpdoctor.model import group_ranks


@dataclass(frozen=True, slots=True, kw_only=True)
class Setters:
    """The ranks that set a variable."""

    ranks: tuple[int, ...]
    """Empty where no launcher started this process."""
    suffix: str
    """` (ranks 0-3)` for the end of a sentence; empty without ranks."""
    values: tuple[str, ...]
    """Each value that one of them has, once."""


def who_sets(environment: PerRank[Environment], names: Collection[str]) -> Iterator[tuple[str, Setters]]:
    """Each of `names` that some rank sets, in order of name, with who sets it to what."""
    for name in sorted(names):
        setting = [entry for entry in environment if name in entry.value.variables]
        if setting:
            ranks = tuple(entry.rank for entry in setting) if environment.launched else ()
            yield (
                name,
                Setters(
                    ranks=ranks,
                    suffix=f" ({group_ranks(ranks)})" if ranks else "",
                    values=tuple(dict.fromkeys(entry.value.variables[name] for entry in setting)),
                ),
            )
