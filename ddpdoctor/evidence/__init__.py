"""What can be known about a host, a rank or a job: frozen dataclasses, and the container that holds them.

A module of this package that adds a kind of evidence lists it in its `KINDS`, with the noun that messages use for it: "no
{noun}: reason". Nothing here imports anything of ours but what is in it.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from operator import attrgetter
from typing import Any, Generic, TypeVar

from ddpdoctor.evidence.bounds import need_rank

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Entry(Generic[T]):
    """One fact of one rank."""

    rank: int
    """The rank that it is about."""
    host: str
    """The name of its host."""
    value: T
    """An instance of the kind that was asked for."""


@dataclass(frozen=True, slots=True)
class HostEntry(Generic[T]):
    """One fact of one host, as its lowest rank reported it."""

    host: str
    """The name of the host."""
    ranks: tuple[int, ...]
    """The ranks on it; empty where no launcher started us."""
    value: T
    """An instance of the kind that was asked for."""


@dataclass(frozen=True, slots=True)
class PerRank(Generic[T]):
    """One kind of fact of every rank that has it, in order of rank. A check asks for it as `PerRank[Limits]`."""

    entries: tuple[Entry[T], ...]
    """One per rank."""
    launched: bool = True
    """False where no launcher started us."""

    def __iter__(self) -> Iterator[Entry[T]]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, rank: int) -> T:
        for entry in self.entries:
            if entry.rank == rank:
                return entry.value
        raise KeyError(rank)

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that gave this evidence."""
        return tuple(entry.rank for entry in self.entries)

    def by_host(self) -> dict[str, dict[int, T]]:
        """The values by host, then by rank."""
        found: dict[str, dict[int, T]] = {}
        for entry in self.entries:
            found.setdefault(entry.host, {})[entry.rank] = entry.value
        return found

    def hosts(self) -> tuple[HostEntry[T], ...]:
        """One entry per host: what is true of the machine is said once, not once a rank."""
        first: dict[str, T] = {}
        ranks: dict[str, list[int]] = {}
        for entry in self.entries:
            first.setdefault(entry.host, entry.value)
            ranks.setdefault(entry.host, []).append(entry.rank)
        return tuple(
            HostEntry(host, tuple(ranks[host]) if self.launched else (), value) for host, value in first.items()
        )


def by_rank(facts: PerRank[T] | None) -> dict[int, T]:
    """The values by rank; nothing where the evidence has none."""
    return {entry.rank: entry.value for entry in facts or ()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """Why a kind of evidence is not there."""

    kind: str
    """The class name of the kind."""
    reason: str
    """Why, in the user's words."""
    rank: int | None = None
    """The rank that could not give it; None where it concerns all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankFacts:
    """Every fact of one rank, or of a host that no launcher started, as rank 0."""

    rank: int
    """The rank."""
    host: str
    """The name of its host."""
    facts: tuple[Any, ...]
    """At most one of each kind."""

    def __post_init__(self) -> None:
        need_rank(self.rank, "the rank")


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All that is known."""

    job: tuple[Any, ...] = ()
    """Facts about the whole job, at most one of each kind."""
    ranks: tuple[RankFacts, ...] = ()
    """Facts by rank."""
    missing: tuple[Missing, ...] = ()
    """What could not be collected, and why."""
    notes: tuple[str, ...] = ()
    """What a reader should know beside the findings."""
    undecided: tuple[str, ...] = ()
    """Why a verdict may not be possible."""
    launched: bool = True
    """False where no launcher started us, so that "rank 0" would mean nothing to the reader."""
    about_job: bool = False
    """Whether a job was observed (watch, hang, verify-sync SCRIPT): then facts about the host are background."""
    meta: Mapping[str, str] = field(default_factory=dict)
    """What was run, for a reader of the case."""
    earlier: tuple[Evidence, ...] = ()
    """Of a job whose launcher started its ranks again: what is known of each attempt before this one, the first one first."""

    def one(self, kind: type[T]) -> T | None:
        """The job's only instance of `kind`, or None."""
        for fact in self.job:
            if type(fact) is kind:
                return fact
        return None

    def kinds_of_ranks(self) -> frozenset[type]:
        """The kinds that some rank has a fact of."""
        return frozenset(type(fact) for facts in self.ranks for fact in facts.facts)

    def per_rank(self, kind: type[T]) -> PerRank[T] | None:
        """What every rank said of `kind`, or None where none did."""
        entries = [
            Entry(facts.rank, facts.host, fact) for facts in self.ranks for fact in facts.facts if type(fact) is kind
        ]
        entries.sort(key=attrgetter("rank"))
        return PerRank(tuple(entries), self.launched) if entries else None

    def with_facts(self, added: Mapping[int, Any]) -> Evidence:
        """The same with one more fact of each of these ranks."""
        ranks = (
            replace(facts, facts=(*facts.facts, added[facts.rank])) if facts.rank in added else facts
            for facts in self.ranks
        )
        return replace(self, ranks=tuple(ranks))

    def with_each(self, kind: type[T], change: Callable[[int, T], T]) -> Evidence:
        """The same with what `change` makes of each rank and its fact of `kind`."""
        ranks = (
            replace(facts, facts=tuple(change(facts.rank, one) if type(one) is kind else one for one in facts.facts))
            for facts in self.ranks
        )
        return replace(self, ranks=tuple(ranks))

    def why_missing(self, kind: str) -> str:
        """The first reason given for the absence of `kind`, or an empty string."""
        return next((missing.reason for missing in self.missing if missing.kind == kind), "")


@cache
def kinds() -> Mapping[str, type]:
    """Every kind of evidence by its class name."""
    return {kind.__name__: kind for kind in _nouns()}


def noun_of(kind: str) -> str:
    """Return what messages call the kind of evidence with this class name: `flight-recorder dump` for FlightRecord."""
    return {known.__name__: noun for known, noun in _nouns().items()}.get(kind, kind)


@cache
def _nouns() -> Mapping[type, str]:
    found: dict[type, str] = {}
    for module in pkgutil.iter_modules(__path__):
        declared: Mapping[type, str] = getattr(importlib.import_module(f"{__name__}.{module.name}"), "KINDS", {})
        for kind, noun in declared.items():
            if kind.__name__ in {other.__name__ for other in found}:
                raise TypeError(f"two kinds of evidence are called {kind.__name__}")
            found[kind] = noun
    return found
