"""Findings of rules whose errors say it all: the rule's own sentence, filled with what the text names."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from ddpdoctor.analysis.crashes.failure import Failure, unique_ranks, who
from ddpdoctor.analysis.crashes.failures import Failures
from ddpdoctor.model import Finding, Rule, Severity, group_ranks
from ddpdoctor.whole_numbers import whole_number

SHOWN_CHARACTERS = 240
_SECONDS = re.compile(r"(?P<number>\d{1,15}) ?(?P<milli>m?)s")


def known_errors(
    rule: Rule, failures: Failures | None, *, note: str = "", severity: Severity | None = None
) -> Iterator[Finding]:
    """One finding for all texts that `rule` declares, in the words of the one that names the most, of equals declared first.

    Every rank is in it.

    `note` says what the line of code in `where` did.
    """
    found = failures.of(rule.code) if failures is not None else ()
    if not found:
        return
    first = max(found, key=lambda failure: _tells(rule, failure))
    assert first.known is not None
    pattern = first.known.pattern
    yield rule.finding(
        sentence(first, found),
        ranks=unique_ranks(found) or [int(rank) for name, rank in first.known.groups.items() if name == "rank"],
        where=[where for failure in found for where in failure.where(note)],
        details=[pattern.note] if pattern.note else (),
        remedy=pattern.remedy or None,
        severity=severity,
        shown_by_job=True,
        **first.known.groups,
    )


def _tells(rule: Rule, failure: Failure) -> tuple[int, int]:
    """How much the text of this failure tells beside the other texts of the rule."""
    if failure.known is None or failure.known.pattern not in rule.errors:
        return (0, 0)
    return len(failure.known.groups), -rule.errors.index(failure.known.pattern)


def sentence(first: Failure, same: Sequence[Failure]) -> str:
    """The sentence of the pattern that `first` matched, for all ranks that failed in the same way.

    `{who}` is `rank 3`, or that the log does not name it; `{on}` is ` on rank 3` or nothing; `{words}` is the text itself.
    """
    assert first.known is not None
    ranks = unique_ranks(same)
    values: dict[str, str] = defaultdict(str)
    values |= first.known.groups
    if "after" in values:
        values["after"] = _in_seconds(values["after"])
    values |= {
        "who": who(same),
        "on": f" on {group_ranks(ranks)}" if ranks else "",
        "words": line_of(first),
    }
    return first.known.pattern.sentence.format_map(values)


def _in_seconds(time: str) -> str:
    """`600 s` of what torch writes as `600000ms` or `600s`; other times as they are."""
    found = _SECONDS.fullmatch(time)
    number = whole_number(found["number"]) if found is not None else None
    if found is None or number is None:
        return time
    return f"{number / 1000 if found['milli'] else number:g} s"


def line_of(failure: Failure) -> str:
    """The line of the failure's text that its rule declares, or the first one."""
    assert failure.known is not None
    lines = [line.strip() for line in failure.text.splitlines() if line.strip()]
    named = [value for value in failure.known.groups.values() if value]
    line = next((line for line in lines if all(value in line for value in named)), lines[0] if lines else "")
    return line[:SHOWN_CHARACTERS]
