"""The verdict in a word, and each finding with its lines of source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.source import CodePlace, SourceCode
from ddpdoctor.model import Finding, Report, Severity, group_ranks
from ddpdoctor.render import places

SHOWN_EXCERPTS = 6  # a finding


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the page says first."""

    word: str
    """`Failed`, `Warning`, `Information`, `Undecided` or `No findings`."""
    level: str
    """`fail`, `warn`, `info`, `undecided` or `ok`, which selects the color."""
    sentence: str
    """The message of the headline, or why there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownLine:
    """One line of source."""

    number: int
    """The line's number in its file."""
    text: str
    """The line without the indentation that the excerpt has in common."""
    here: bool
    """Whether it is the line that is meant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownFinding:
    """One finding, its ranks in words, its places, and the source around them."""

    finding: Finding
    """The finding itself."""
    anchor: str
    """The id of its element on the page."""
    ranks: str
    """Its ranks as `ranks 0-3`; empty where it names none."""
    where: tuple[ShownWhere, ...]
    """Its places, those at fault first."""

    @property
    def excerpts(self) -> list[tuple[str, int]]:
        """The places (file, line) whose source it shows."""
        return [where.place for where in self.where if where.lines]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownWhere:
    """One place: who is there, what they do, and the lines around it where they are known."""

    place: tuple[str, int]
    """File and line."""
    who: str
    """The ranks that are there; empty where the finding does not tell."""
    spot: str
    """`file:line` with the function, as a finding shows it."""
    note: str
    """What they do there; may be empty."""
    lines: tuple[ShownLine, ...]
    """The source around it; empty where it is not known, or shown already."""


def verdict_of(report: Report) -> Verdict:
    """What the page says first."""
    if report.findings:
        first = report.findings[0]
        words = {Severity.FAIL: "Failed", Severity.WARN: "Warning", Severity.INFO: "Information"}
        return Verdict(word=words[first.severity], level=first.severity.value, sentence=first.message)
    if report.undecided:
        return Verdict(word="Undecided", level="undecided", sentence=report.undecided[0])
    if report.crashed:
        return Verdict(word="Undecided", level="undecided", sentence="a check of ddpdoctor itself crashed")
    if not report.ran:
        return Verdict(word="Undecided", level="undecided", sentence="no check could run")
    checks = "1 check" if len(report.ran) == 1 else f"{len(report.ran)} checks"
    return Verdict(word="No findings", level="ok", sentence=f"{checks} ran and found nothing")


def shown_findings(report: Report, evidence: Evidence) -> tuple[ShownFinding, ...]:
    """Every finding, root cause first; the same excerpt stands once."""
    code = evidence.one(SourceCode)
    shown: set[tuple[str, int]] = set()
    return tuple(
        ShownFinding(
            finding=finding,
            anchor=f"finding-{number}",
            ranks=group_ranks(finding.ranks) if finding.ranks else "",
            where=tuple(_where(finding, code, shown)),
        )
        for number, finding in enumerate(report.findings, start=1)
    )


def _where(finding: Finding, code: SourceCode | None, shown: set[tuple[str, int]]) -> Iterator[ShownWhere]:
    excerpts = 0
    for place in places(finding):
        at = next(
            (where for where in finding.where if place.spot.startswith(f"{where.file}:{where.line}")), finding.where[0]
        )
        known = code.at(at.file, at.line) if code is not None else None
        fresh = known is not None and (at.file, at.line) not in shown and excerpts < SHOWN_EXCERPTS
        if fresh:
            shown.add((at.file, at.line))
            excerpts += 1
        yield ShownWhere(
            place=(at.file, at.line),
            who=place.who,
            spot=place.spot,
            note=place.note,
            lines=excerpt(known) if known is not None and fresh else (),
        )


def excerpt(place: CodePlace) -> tuple[ShownLine, ...]:
    """The lines around a place, without what they have in common at their left."""
    margin = min((len(text) - len(text.lstrip()) for text in place.excerpt if text.strip()), default=0)
    return tuple(
        ShownLine(number=number, text=text[margin:], here=number == place.line)
        for number, text in enumerate(place.excerpt, start=place.excerpt_from)
    )
