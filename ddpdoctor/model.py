"""What every part speaks: Rule, Finding, Outcome and Report. Imports nothing of ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol, TypeAlias

PAGES = "docs/findings"

Measure: TypeAlias = "int | float | str | bool | Sequence[Measure] | Mapping[str, Measure] | None"
"""A value in `Finding.measured`: anything JSON can hold."""


class Severity(Enum):
    """How bad a finding is: `info` never fails a command, `warn` does with `--fail-on warn`, `fail` always."""

    INFO = "info"
    WARN = "warn"
    FAIL = "fail"

    @property
    def rank(self) -> int:
        """0 for info, 1 for warn, 2 for fail."""
        return ("info", "warn", "fail").index(self.value)


class Place(Protocol):
    """A line of somebody's code."""

    @property
    def file(self) -> str:
        """As the interpreter knows it."""

    @property
    def line(self) -> int:
        """From 1 on."""

    @property
    def function(self) -> str:
        """`<module>` outside of any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """The innermost frame of the user's own code on one rank, and what that rank does there."""

    rank: int | None
    file: str
    line: int
    function: str
    note: str = ""

    @classmethod
    def at(cls, place: Place, *, rank: int | None, note: str = "") -> Where:
        """What `rank` does at `place`: a frame of its stack, or a line that was written down."""
        return cls(rank=rank, file=place.file, line=place.line, function=place.function, note=note)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong: the message measures, the remedy advises.

    `ranks` are the culprits, never the sufferers. `measured` holds the numbers of the message, for machines. `details`
    are further lines of the message. `explained_by` is the code of the finding that accounts for this one, or None.
    """

    rule: Rule
    message: str
    severity: Severity
    remedy: str
    ranks: tuple[int, ...] = ()
    hosts: tuple[str, ...] = ()
    where: tuple[Where, ...] = ()
    details: tuple[str, ...] = ()
    measured: Mapping[str, Measure] = field(default_factory=dict)
    explained_by: str | None = None

    @property
    def code(self) -> str:
        """The rule's code, such as DDP305."""
        return self.rule.code


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A kind of finding. `name` states the bad thing; `explains` lists the codes of the symptoms it accounts for."""

    code: str
    name: str
    summary: str
    severity: Severity
    remedy: str
    explains: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        """The page of the rule, relative to the repository; `ddpdoctor explain CODE` shows it."""
        return f"{PAGES}/{self.code}.md"

    def finding(
        self,
        message: str,
        *,
        ranks: Sequence[int] = (),
        hosts: Sequence[str] = (),
        where: Sequence[Where] = (),
        details: Sequence[str] = (),
        severity: Severity | None = None,
        remedy: str | None = None,
        **measured: Measure,
    ) -> Finding:
        """A finding of this rule. `severity` and `remedy` replace the rule's own where the evidence says more."""
        return Finding(
            rule=self,
            message=message,
            severity=severity or self.severity,
            remedy=remedy or self.remedy,
            ranks=tuple(sorted(set(ranks))),
            hosts=tuple(dict.fromkeys(hosts)),
            where=tuple(where),
            details=tuple(details),
            measured=measured,
        )


class SkipCheck(Exception):  # noqa: N818 - it is not an error but an answer
    """Raised by a check whose evidence is there but does not hold what it must know; becomes `Skipped(reason)`."""


@dataclass(frozen=True, slots=True)
class Ran:
    """The check looked and has these findings, or none."""

    rule: Rule
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Skipped:
    """The check could not look, for this reason. This is not health.

    `tried` is False where nobody tried to collect what it needs: the check is not this command's business.
    """

    rule: Rule
    reason: str
    tried: bool = True


@dataclass(frozen=True, slots=True)
class Crashed:
    """The check itself failed: a bug of ours, shown and never hidden."""

    rule: Rule
    error: str


Outcome: TypeAlias = Ran | Skipped | Crashed


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Every rule's answer. `findings[0]` is the root cause; `notes` are worth saying but not findings.

    `undecided` holds the reasons for which no verdict was possible: a rank missing, a deadline passed. `measured` is what
    the command measured, finding or not, for machines: an accuracy, the table of a benchmark.
    """

    outcomes: tuple[Outcome, ...]
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()
    undecided: tuple[str, ...] = ()
    measured: Mapping[str, Measure] = field(default_factory=dict)

    @property
    def ran(self) -> tuple[Ran, ...]:
        """The checks that looked."""
        return tuple(outcome for outcome in self.outcomes if isinstance(outcome, Ran))

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        """The checks that could not look."""
        return tuple(outcome for outcome in self.outcomes if isinstance(outcome, Skipped))

    @property
    def crashed(self) -> tuple[Crashed, ...]:
        """The checks that failed themselves."""
        return tuple(outcome for outcome in self.outcomes if isinstance(outcome, Crashed))

    @property
    def explained(self) -> bool:
        """Whether a finding names a cause; one that is only worth saying is none."""
        return any(finding.severity is not Severity.INFO for finding in self.findings)

    def exit_code(self, fail_on: Severity) -> int:
        """1 with a finding at or above `fail_on`, 4 when a check crashed, 3 when undecided or nothing ran, else 0."""
        if any(finding.severity.rank >= fail_on.rank for finding in self.findings):
            return 1
        if self.crashed:
            return 4
        if self.undecided or not self.ran:
            return 3
        return 0


def group_ranks(ranks: Sequence[int]) -> str:
    """The ranks as people write them: `rank 3`, `ranks 0-2,5`; `no rank` when there are none."""
    numbers = sorted(set(ranks))
    if not numbers:
        return "no rank"
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    text = ",".join(f"{low}" if low == high else f"{low}-{high}" for low, high in spans)
    return f"rank{'s' if len(numbers) > 1 else ''} {text}"
