"""Evidence without secrets: every string of it redacted, each fact once."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from functools import cache
from itertools import accumulate, pairwise
from operator import is_
from typing import Any

from ddpdoctor.evidence import Evidence
from ddpdoctor.secrets import REDACTED, names_a_secret, redact_text

MOST_TEXTS, MOST_CHARACTERS = 1000, 100_000  # of arguments or lines that are redacted together
_HARMLESS = (int, float, type(None))


def redact(evidence: Evidence) -> Evidence:
    """`evidence` with every string redacted, so that neither a report nor a case can leak a secret.

    A fact that was redacted last time is not redacted again: a report, its page and the case are made of the same facts.
    """
    last = tuple(_LAST_REDACTED)  # in memory until this call ends, so that no other object takes the identity of a fact
    seen = {id(fact): clean for fact, clean in last}
    clean = _clean(evidence, seen)
    assert isinstance(clean, Evidence)
    _LAST_REDACTED[:] = [pair for one in _facts_of(evidence) for pair in ((one, seen[id(one)]), (seen[id(one)],) * 2)]
    return clean


_LAST_REDACTED: list[tuple[Any, Any]] = []
"""Facts, each with what `redact` made of it."""


def _facts_of(evidence: Evidence) -> Iterator[Any]:
    yield from evidence.job
    for facts in evidence.ranks:
        yield from facts.facts
    for attempt in evidence.earlier:
        yield from _facts_of(attempt)


def _clean(value: Any, seen: dict[int, Any]) -> Any:  # noqa: ANN401
    """`value`, evidence of any kind, redacted; itself where there is nothing to redact. `seen` holds what is shared."""
    if isinstance(value, str):
        return value if isinstance(value, Enum) else redact_text(value)
    if isinstance(value, _HARMLESS):
        return value
    if id(value) not in seen:
        seen[id(value)] = _clean_container(value, seen)
    return seen[id(value)]


def _clean_container(value: Any, seen: dict[int, Any]) -> Any:  # noqa: ANN401
    if isinstance(value, Mapping):
        keys = [_clean(key, seen) for key in value]
        items = [
            REDACTED if isinstance(item, str) and names_a_secret(str(key)) else _clean(item, seen)
            for key, item in value.items()
        ]
        same = all(map(is_, keys, value)) and all(map(is_, items, value.values()))
        return value if same else dict(zip(keys, items, strict=True))
    if isinstance(value, tuple | list | frozenset):
        if all(issubclass(kind, _HARMLESS) for kind in set(map(type, value))):
            return value
        items = _clean_texts(value) or [_clean(item, seen) for item in value]
        return value if all(map(is_, items, value)) else type(value)(items)
    if is_dataclass(value) and not isinstance(value, type):
        changed = {}
        for name in _field_names(type(value)):
            item = getattr(value, name)
            if isinstance(item, _HARMLESS):
                continue
            clean = REDACTED if isinstance(item, str) and names_a_secret(name) else _clean(item, seen)
            if clean is not item:
                changed[name] = clean
        return replace(value, **changed) if changed else value
    return value


@cache
def _field_names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


def _clean_texts(texts: Collection[Any]) -> list[str] | None:
    """Arguments or lines, redacted with a view of those beside each: the name of a secret and its value may be two texts.

    None for anything but a few texts: each is redacted for itself then.
    """
    if not 1 < len(texts) <= MOST_TEXTS or not all(type(text) is str for text in texts):
        return None
    together = "\n".join(texts)
    if len(together) > MOST_CHARACTERS:
        return None
    redacted = redact_text(together)
    if redacted == together:
        return [*texts]
    lines = redacted.split("\n")
    ends = [*accumulate(text.count("\n") + 1 for text in texts)]
    if len(lines) != ends[-1]:  # a secret of several lines is one word now
        return None
    return ["\n".join(lines[start:end]) for start, end in pairwise([0, *ends])]
