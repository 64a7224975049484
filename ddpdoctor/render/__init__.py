"""Pure functions from a report to text: one format a module."""

from __future__ import annotations

from dataclasses import dataclass, replace

from typing_extensions import assert_never

from ddpdoctor.grouping import grouped
from ddpdoctor.model import Crashed, Finding, Outcome, Ran, Report, Severity, Skipped, Where, group_ranks
from ddpdoctor.quoting import quoted, quoted_lines

SHOWN_SKIP_REASONS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownPlace:
    """One line of `where`: ranks that are at one place and do the same there."""

    ranks: tuple[int, ...]
    """Empty where no rank applies."""
    spot: str
    """`file:line`, with ` in function` where that is known."""
    note: str
    """What they do there; may be empty."""

    @property
    def who(self) -> str:
        """`rank 0`, `ranks 1-3`, or an empty string where no rank applies."""
        return group_ranks(self.ranks) if self.ranks else ""


def places(finding: Finding) -> tuple[ShownPlace, ...]:
    """`finding.where` with the ranks that share a place and a note put together, in the order given."""
    grouped: dict[tuple[str, str], list[Where]] = {}
    for where in finding.where:
        spot = f"{where.file}:{where.line}" + (f" in {where.function}" if where.function else "")
        grouped.setdefault((spot, where.note), []).append(where)
    return tuple(
        ShownPlace(ranks=tuple(where.rank for where in group if where.rank is not None), spot=spot, note=note)
        for (spot, note), group in grouped.items()
    )


def by_place(finding: Finding) -> tuple[str, int, int, str]:
    """A key that sorts findings by their first place, those without one first."""
    if not finding.where:
        return "", 0, 0, finding.code
    first = finding.where[0]
    return first.file, first.line, first.column or 0, finding.code


def summary(report: Report) -> str:
    """One sentence: how many findings of each severity, how many checks ran, how many could not and how many crashed."""
    counts = [
        f"{number} {severity.value}"
        for severity in (Severity.FAIL, Severity.WARN, Severity.INFO)
        if (number := sum(finding.severity is severity for finding in report.findings))
    ]
    nothing = "undecided" if report.undecided or not report.ran else "no findings"
    found = ", ".join(counts) or nothing
    ran = len(report.ran)
    parts = [f"{ran} check{'' if ran == 1 else 's'} ran", f"{sum(outcome.tried for outcome in report.skipped)} skipped"]
    if report.crashed:
        parts.append(f"{len(report.crashed)} crashed")
    return f"{found} ({', '.join(parts)})"


def skips_by_reason(report: Report) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Each reason for which checks were skipped, with their codes; the commonest first.

    Checks that are not this command's business (`Skipped.tried` is False) are left out.
    """
    codes = grouped((outcome.reason, outcome.rule.code) for outcome in report.skipped if outcome.tried)
    return tuple((reason, tuple(group)) for reason, group in sorted(codes.items(), key=lambda item: -len(item[1])))


def quoted_report(report: Report) -> Report:
    """`report` with every text quoted: only the message of a finding may have several lines, each marked as such.

    Each renderer for people begins with it, so that none of what follows has to know where a text came from.
    """
    return replace(
        report,
        outcomes=tuple(map(_quoted_outcome, report.outcomes)),
        findings=tuple(map(_quoted_finding, report.findings)),
        notes=tuple(map(quoted, report.notes)),
        undecided=tuple(map(quoted, report.undecided)),
    )


def _quoted_outcome(outcome: Outcome) -> Outcome:
    match outcome:
        case Ran(rule=rule, findings=findings):
            return Ran(rule, tuple(map(_quoted_finding, findings)))
        case Skipped(rule=rule, reason=reason, tried=tried):
            return Skipped(rule, quoted(reason), tried)
        case Crashed(rule=rule, error=error):
            return Crashed(rule, quoted(error))
        case _:
            assert_never(outcome)


def _quoted_finding(finding: Finding) -> Finding:
    return replace(
        finding,
        message="\n".join(quoted_lines(finding.message)),
        remedy=quoted(finding.remedy),
        hosts=tuple(map(quoted, finding.hosts)),
        details=tuple(map(quoted, finding.details)),
        where=tuple(
            replace(where, file=quoted(where.file), function=quoted(where.function), note=quoted(where.note))
            for where in finding.where
        ),
    )


def skips_in_one_line(report: Report) -> str:
    """`46 checks skipped: no GPU data; only one host; no list of the ranks that joined; ... (--verbose)`.

    Empty where none was skipped, and where a cause is named: which other checks ran is then no part of the answer.
    """
    reasons = skips_by_reason(report)
    if not reasons or (report.explained and not report.undecided):
        return ""
    number = sum(len(codes) for _, codes in reasons)
    short = list(dict.fromkeys(reason.partition(":")[0] for reason, _ in reasons))
    more = "; ..." if len(short) > SHOWN_SKIP_REASONS else ""
    return (
        f"{number} check{'s' if number > 1 else ''} skipped: {'; '.join(short[:SHOWN_SKIP_REASONS])}{more} (--verbose)"
    )


def headline(finding: Finding) -> str:
    """`DDP305 collective-called-by-some: rank 0 called ...`."""
    return f"{finding.code} {finding.rule.name}: {finding.message}"
