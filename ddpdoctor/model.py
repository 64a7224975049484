"""What every part speaks: Rule, Finding, Outcome and Report. Imports nothing of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol, TypeAlias

DOCS = "https://ddpdoctor.readthedocs.io/en/latest"  # `site_url` of mkdocs.yml

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


class SourceLine(Protocol):
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
    """The rank; None where the line is of no particular one."""
    file: str
    """As the interpreter knows it."""
    line: int
    """The number of the line, from 1."""
    function: str
    """The name of the function, `<module>` outside of any."""
    note: str = ""
    """What the rank does there."""
    column: int | None = None
    """From 1 on, where the place was read in source code."""

    @classmethod
    def at(cls, place: SourceLine, *, rank: int | None, note: str = "") -> Where:
        """What `rank` does at `place`: a frame of its stack, or a line that was written down."""
        return cls(rank=rank, file=place.file, line=place.line, function=place.function, note=note)


class Edit(Enum):
    """A change of source code that a tool can make."""

    ADD_ARGUMENT = "add argument"
    """The call gets `new`."""
    REMOVE_ARGUMENT = "remove argument"
    """The call loses the keyword `old`."""
    REPLACE_ARGUMENT = "replace argument"
    """`old` within the arguments of the call becomes `new`."""
    FIRST_IN_LOOP = "first in loop"
    """The loop gets `new` as its first line."""
    SORT = "sort"
    """The call `old` in the line becomes `sorted(old)`."""
    END_PROCESS_GROUP = "end process group"
    """The process group is destroyed at the end of the program."""
    RANK_ZERO_FIRST = "rank zero first"
    """Barriers before and behind the statement let rank 0 go first."""
    CALL = "call"
    """The name `old` in the line becomes `old()`."""
    TORCHRUN = "torchrun"
    """`python -m torch.distributed.launch` in the line becomes `torchrun`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fix:
    """How a tool can correct a finding in the source code."""

    edit: Edit
    """How `old` becomes `new`."""
    file: str
    """The path as in the finding's place; of a notebook with the cell."""
    line: int
    """The line, from 1."""
    column: int | None = None
    """The column of the call, from 1; None where the line is enough."""
    old: str = ""
    """What is replaced, as `edit` says."""
    new: str = ""
    """What takes its place, as `edit` says."""
    safe: bool = True
    """Whether it cannot change what the program means to do."""
    also: tuple[Fix, ...] = ()
    """What else is changed in this file for the same finding; it is counted as one fix with this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong: the message measures, the remedy advises."""

    rule: Rule
    """The kind of finding."""
    message: str
    """What was measured, in one sentence."""
    severity: Severity
    """The rule's own, unless the evidence says more."""
    remedy: str
    """What to do."""
    ranks: tuple[int, ...] = ()
    """The ranks at fault, never those that suffer from it."""
    hosts: tuple[str, ...] = ()
    """The hosts at fault."""
    where: tuple[Where, ...] = ()
    """Lines of the user's code, those of the ranks at fault first."""
    details: tuple[str, ...] = ()
    """Further lines of the message."""
    measured: Mapping[str, Measure] = field(default_factory=dict)
    """The numbers of the message, for machines."""
    explained_by: str | None = None
    """The code of the finding that accounts for this one, or None."""
    shown_by_job: bool = False
    """Whether an error of the job shows it, and not only a look at the host."""
    fix: Fix | None = None
    """How a tool can correct it, where one can."""

    @property
    def code(self) -> str:
        """The rule's code, such as DDP305."""
        return self.rule.code


class Writer(Enum):
    """Whether a second, closer run can find the line of the user's code that wrote what a finding is about."""

    NOT_SOUGHT = "not sought"
    BETWEEN_STEPS = "between steps"
    """Only where it was written after the first step."""
    ANY_TIME = "any time"
    """Before the first step too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorPattern:
    """A text that stands in logs and exceptions, and what it means.

    Of the patterns that match a text the first in order of code counts; a wrapper counts where no other pattern does.
    """

    regex: str
    """A regular expression, searched in one message or line in linear time; its named groups fill the sentence."""
    sentence: str = ""
    """The finding's message, with `{who}` for the ranks and the regex's named groups; empty where the rule words it itself."""
    note: str = ""
    """What the text means, where nothing but the text is known."""
    remedy: str = ""
    """What to do in place of the rule's remedy."""
    wrapper: bool = False
    """Whether this is an outer message, whose cause another one of the same failure names."""
    applies: Callable[[str], bool] | None = None
    """What the text must fulfil beside the regex; None where nothing."""
    frames: str = ""
    """A regular expression that `file:function` of a frame of the exception's stack must match; empty where any stack fits."""
    without_stack: bool = True
    """Whether a text without a stack fits, too, where `frames` is given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A kind of finding."""

    code: str
    """`DDP305`: never reused."""
    name: str
    """The bad thing, in lower case with hyphens."""
    summary: str
    """One sentence for lists of rules."""
    severity: Severity
    """Unless the evidence says more."""
    remedy: str
    """What to do, unless the evidence says more."""
    explains: tuple[str, ...] = ()
    """The codes of the symptoms that it accounts for."""
    background: bool = False
    """Whether it is information beside a running job: a fact about the host, not about the job."""
    about_step: bool = False
    """Whether its findings name the optimizer step at which the ranks diverged, so that a closer run can look there."""
    writer: Writer = Writer.NOT_SOUGHT
    """Whether that closer run can name the line that wrote."""
    errors: tuple[ErrorPattern, ...] = ()
    """The texts of PyTorch, NCCL, gloo, CUDA, Python and the launchers that belong to this kind."""
    leads_to: tuple[str, ...] = ()
    """Of a rule about source code: the codes that a run shows where it is ignored."""
    shown_by: str = ""
    """What shows that it is this kind and no other one with the same symptoms: a line, a command; empty where the family's
    own command does."""

    @property
    def url(self) -> str:
        """The page of the rule in the published documentation; `ddpdoctor explain CODE` shows the same page."""
        return f"{DOCS}/findings/{self.code}/"

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
        shown_by_job: bool = False,
        **measured: Measure,
    ) -> Finding:
        """A finding of this rule. `severity` and `remedy` replace the rule's own where the evidence says more.

        The places of other ranks come after those of `ranks`: a reader looks at the first.
        """
        return Finding(
            rule=self,
            message=message,
            severity=severity or self.severity,
            remedy=remedy or self.remedy,
            ranks=tuple(sorted(set(ranks))),
            hosts=tuple(dict.fromkeys(hosts)),
            where=tuple(sorted(where, key=lambda place: place.rank is not None and place.rank not in ranks)),
            details=tuple(details),
            measured=measured,
            shown_by_job=shown_by_job,
        )


class SkipCheck(Exception):  # noqa: N818 - it is not an error but an answer
    """Raised by a check whose evidence is there but does not hold what it must know; becomes `Skipped(reason)`."""


@dataclass(frozen=True, slots=True)
class Ran:
    """The check looked at the evidence."""

    rule: Rule
    """The rule of the check."""
    findings: tuple[Finding, ...]
    """What it found, empty where all is well."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """The check could not look. This is not health."""

    rule: Rule
    """The rule of the check."""
    reason: str
    """Why, in the user's words."""
    tried: bool = True
    """False where nobody tried to collect what it needs: the check is not this command's business."""


@dataclass(frozen=True, slots=True)
class Crashed:
    """The check itself failed: a bug of ours, shown and never hidden."""

    rule: Rule
    """The rule of the check."""
    error: str
    """The exception and where it was raised."""


Outcome: TypeAlias = Ran | Skipped | Crashed


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Every rule's answer."""

    outcomes: tuple[Outcome, ...]
    """One per rule that was asked for, in order of code."""
    findings: tuple[Finding, ...]
    """Root causes first: `findings[0]` is the headline."""
    notes: tuple[str, ...] = ()
    """What is worth knowing and no finding."""
    undecided: tuple[str, ...] = ()
    """Why no verdict was possible: a rank is missing, a deadline passed."""
    measured: Mapping[str, Measure] = field(default_factory=dict)
    """What the command measured, finding or not, for machines: an accuracy, the table of a benchmark."""

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
    return group_ranges([range(low, high + 1) for low, high in spans])


def group_ranges(ranges: Sequence[range]) -> str:
    """Ranges of ranks as people write them: `ranks 0-2,5`."""
    text = ",".join(f"{each[0]}" if len(each) == 1 else f"{each[0]}-{each[-1]}" for each in ranges)
    return f"rank{'s' if sum(map(len, ranges)) > 1 else ''} {text}"


def verb(ranks: Sized, one: str, many: str) -> str:
    """The word of a sentence about these ranks: `one` for a single rank, `many` for several."""
    return one if len(ranks) == 1 else many


def measured_by_rank(values: Mapping[int, Measure]) -> dict[str, Measure]:
    """Values by rank for `Finding.measured`, whose keys are texts, in order of rank."""
    return {str(rank): value for rank, value in sorted(values.items())}


def absent_ranks(size: int, present: Iterable[int]) -> list[range]:
    """The ranks below `size` that are not in `present`, as ranges: `size` may be any number, and costs nothing."""
    found, after = [], 0
    for rank in [*sorted({rank for rank in present if 0 <= rank < size}), size]:
        if rank > after:
            found.append(range(after, rank))
        after = rank + 1
    return found
