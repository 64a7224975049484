"""Evidence in, report out. Pure: the same evidence gives the same report, on any machine."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
import traceback
import typing
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from types import ModuleType
from typing import Any, Protocol, TypeVar

from ddpdoctor import analysis, checks
from ddpdoctor.analysis.crashes.end_request import as_requested, by_request_alone
from ddpdoctor.analysis.crashes.error_patterns import OF_A_PEER, ErrorTable
from ddpdoctor.analysis.crashes.failures import NO_PLACE, Failures, who
from ddpdoctor.analysis.hangs.rank_activity import Activities
from ddpdoctor.analysis.hangs.wait_for_graph import Reason, WaitForGraph
from ddpdoctor.evidence import Evidence, PerRank, noun_of
from ddpdoctor.evidence.process import Stall
from ddpdoctor.evidence.ranks import JobSize
from ddpdoctor.messages.activities import lines
from ddpdoctor.messages.known_errors import known_errors
from ddpdoctor.model import (
    Crashed,
    Finding,
    Outcome,
    Ran,
    Report,
    Rule,
    Severity,
    SkipCheck,
    Skipped,
    absent_ranks,
    group_ranges,
    group_ranks,
)

T = TypeVar("T")

SHOWN_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class Check:
    """A rule with the function that looks for it and the evidence that the function declares by its annotations."""

    rule: Rule
    function: Callable[..., Iterable[Finding]]
    inputs: tuple[Any, ...]


class _Absent(Exception):  # noqa: N818 - carries a reason, is never shown
    """Evidence that a check or an analysis declares is not there; `tried`: a collector said why."""

    def __init__(self, reason: str, *, tried: bool) -> None:
        super().__init__(reason, tried)
        self.reason = reason
        self.tried = tried


def diagnose(evidence: Evidence, *, select: Collection[str] = (), ignore: Collection[str] = ()) -> Report:
    """The report of every rule over `evidence`; with `select` only of these codes, with `ignore` without those.

    A prefix such as `DDP3` stands for its family. Findings come root cause first; a finding whose code another's rule
    `explains` carries that code in `explained_by` and comes after it.
    """
    evidence = as_requested(evidence)
    resolver = _Resolver(evidence)
    outcomes = tuple(
        _run(check, resolver)
        for check in all_checks()
        if (not select or _matches(check.rule.code, select)) and not _matches(check.rule.code, ignore)
    )
    findings = [finding for outcome in outcomes if isinstance(outcome, Ran) for finding in outcome.findings]
    if evidence.about_job:
        findings = [_background(finding) for finding in findings]
    report = Report(
        outcomes=outcomes,
        findings=tuple(_root_cause_first(findings)),
        notes=evidence.notes,
        undecided=evidence.undecided,
    )
    if select or any(finding.severity is Severity.FAIL for finding in findings):
        return report
    failures: Failures | None = resolver(Failures | None)
    # of a job that hangs, or that somebody ended while it ran, the log is no verdict
    logged = evidence.one(Stall) is None and not by_request_alone(evidence)
    open_ = [*_unexplained_failure(failures, explained=report.explained)] if failures is not None and logged else []
    if not report.explained:
        graph: WaitForGraph | None = resolver(WaitForGraph | None)
        unexplained = _unexplained(evidence, resolver(Activities | None))
        open_ = [*unexplained, *_not_kept(graph), *_lost(evidence, failures), *open_]
    return replace(report, undecided=(*report.undecided, *open_))


def _unexplained_failure(failures: Failures, *, explained: bool) -> Iterator[str]:
    """`the log shows a failure that no rule explains; the first line of it, of rank 3 at 09:31:44 (line 120): ...`.

    Of a job that failed, by its log, where nothing that is a finding explains it.
    """
    first = failures.first_line
    if first is None:
        return
    at = f" at {first.clock}" if first.clock else ""
    number = f" (line {first.number})" if first.number else ""
    who_ = f" of rank {first.rank}" if first.rank is not None else ""
    why = (
        "the cause of this failure is not in the log" if explained else "the log shows a failure that no rule explains"
    )
    ended = failures.log.ended_by if failures.log is not None else None
    if ended is not None and not explained and not failures.all:
        yield (
            f"the job was ended from outside: {ended[:SHOWN_CHARACTERS]}; if it hung before, start it under `ddpdoctor watch`, "
            "which names the rank and the line while it hangs"
        )
        return
    yield f"{why}; its first line is{who_}{at}{number}: {first.text[:SHOWN_CHARACTERS]}"


def _unexplained(evidence: Evidence, activities: Activities | None) -> Iterator[str]:
    """Say that no rule explains the stall, and which evidence of which rank is missing.

    `no progress for 12 s; the evidence does not explain it. Missing: stacks of rank 2 (permission denied)`.
    """
    stall = evidence.one(Stall)
    if stall is None or stall.seconds is None:
        return
    missing = [
        f"{noun_of(each.kind)} of rank {each.rank} ({each.reason})"
        for each in evidence.missing
        if each.rank is not None
    ]
    listed = f". Missing: {', '.join(missing)}" if missing else ""
    yield f"no progress for {stall.seconds:.0f} s; the evidence does not explain it{listed}"
    if activities is not None:
        yield from lines(activities)


def _not_kept(graph: WaitForGraph | None) -> Iterator[str]:
    """Say that the flight recorders kept fewer calls than were outstanding."""
    if graph is not None and graph.reason is Reason.NOT_KEPT:
        yield (
            f"the flight recorders of {group_ranks(graph.ranks)} have lost calls that these ranks wait in: their ring buffers "
            "hold fewer calls than are under way; start the job with TORCH_FR_BUFFER_SIZE=20000"
        )


def _lost(evidence: Evidence, failures: Failures | None) -> Iterator[str]:
    """Say that ranks lost a peer about which nothing is known: one of those ended first, or their node did.

    Logs alone do not tell how many ranks there are; then the message says that the peer's own error is missing.
    """
    if failures is None:
        return
    size = evidence.one(JobSize)
    unknown = absent_ranks(size.ranks, (facts.rank for facts in evidence.ranks)) if size is not None else []
    if size is not None and unknown and failures.lost:
        others = group_ranges(unknown)
        yield (
            f"{who(failures.lost)} lost a peer, and there is no evidence of {others} of {size.ranks}: add the log or the "
            f"`watch` case of {others}; if there is none, check that their node is up"
        )
    elif failures.log is not None and (
        secondary := [failure for failure in failures.all if failure.secondary_error in OF_A_PEER]
    ):
        yield f"{who(secondary)} failed because of a peer whose own error is not in the log: give the logs of all ranks"


def derived(evidence: Evidence, kind: type[T]) -> T | None:
    """What the checks are given as `kind` over this evidence, or None where it cannot be derived."""
    found: T | None = _Resolver(as_requested(evidence))(kind | None)
    return found


class Deriver(Protocol):
    """Answers what can be derived from one evidence, each kind once."""

    def __call__(self, kind: type[T]) -> T | None:
        """What the checks are given as `kind`; None where it cannot be derived, or where its analysis crashes."""


def deriver(evidence: Evidence) -> Deriver:
    """Derivations over `evidence` for a renderer, which shows what there is: a check says what crashed."""
    resolver = _Resolver(as_requested(evidence))

    def derive(kind: type[T]) -> T | None:
        try:
            found: T | None = resolver(kind | None)
        except Exception:  # noqa: BLE001 - the report has the crash of the checks that need it
            return None
        return found

    return derive


def inputs_of(kind: type) -> tuple[Any, ...]:
    """What the analysis that derives `kind` declares; nothing for a kind that is not derived."""
    return _analyses()[kind][1] if kind in _analyses() else ()


@cache
def all_checks() -> tuple[Check, ...]:
    """Every check in the package, in order of code."""
    found = []
    for module in _modules(checks):
        rule: Rule = module.RULE
        found.append(Check(rule, module.check, _declared(module.check)))
    return tuple(sorted(found, key=lambda check: check.rule.code))


def all_rules() -> tuple[Rule, ...]:
    """Every rule in the package, in order of code."""
    return tuple(check.rule for check in all_checks())


def rule_called(word: str) -> Rule | None:
    """The rule with this code or name, in either case; None where there is none."""
    return next((rule for rule in all_rules() if word.upper() == rule.code or word.lower() == rule.name), None)


def nearest_name(word: str) -> str:
    """The code or the name of a rule that is most like a word; empty where none is like it."""
    codes, names = [rule.code for rule in all_rules()], [rule.name for rule in all_rules()]
    near = difflib.get_close_matches(word.upper(), codes, n=1) or difflib.get_close_matches(
        word.lower(), names, n=1, cutoff=0.5
    )
    return near[0] if near else ""


@cache
def error_table() -> ErrorTable:
    """The texts of errors that all rules declare."""
    return ErrorTable.of(all_rules())


def _modules(package: ModuleType) -> list[ModuleType]:
    found = pkgutil.walk_packages(package.__path__, prefix=f"{package.__name__}.")
    return [importlib.import_module(module.name) for module in found]


def _declared(function: Callable[..., Any]) -> tuple[Any, ...]:
    hints = typing.get_type_hints(function)
    hints.pop("return", None)
    return tuple(hints.values())


@cache
def _analyses() -> dict[Any, tuple[Callable[..., Any], tuple[Any, ...]]]:
    """The kind that each analysis derives, with its function and what that declares."""
    found: dict[Any, tuple[Callable[..., Any], tuple[Any, ...]]] = {}
    for module in _modules(analysis):
        derive = getattr(module, "derive", None)
        if derive is not None:
            found[typing.get_type_hints(derive)["return"]] = (derive, _declared(derive))
    return found


class _Resolver:
    """Finds a declared kind in the evidence, or derives it once."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self._derived: dict[Any, Any] = {}
        self._of_ranks: dict[Any, Any] = {}

    def __call__(self, kind: Any) -> Any:  # noqa: ANN401 - kinds are data
        if type(None) in typing.get_args(kind):
            return self._optional(kind)
        if typing.get_origin(kind) is PerRank:
            (inner,) = typing.get_args(kind)
            if inner not in self._of_ranks:
                self._of_ranks[inner] = self._evidence.per_rank(inner)
            return self._present(self._of_ranks[inner], inner)
        if kind is ErrorTable:
            return error_table()
        given = self._evidence.one(kind)
        if given is None and kind in _analyses():
            return self._derive(kind)
        return self._present(given, kind)

    def _optional(self, kind: Any) -> Any:  # noqa: ANN401
        """What stands in `X | None`, or None where it is not there: evidence that a check uses but can do without."""
        (wanted,) = (inner for inner in typing.get_args(kind) if inner is not type(None))
        try:
            return self(wanted)
        except _Absent:
            return None

    def _derive(self, kind: Any) -> Any:  # noqa: ANN401
        if kind not in self._derived:
            function, inputs = _analyses()[kind]
            given: list[Any] = []
            try:
                given += (self(needed) for needed in inputs)
                self._derived[kind] = function(*given)
            except _Absent as absent:
                self._derived[kind] = absent
            except SkipCheck as skip:  # over nothing at all it was not this command's business
                tried = any(value is not None and not isinstance(value, ErrorTable) for value in given)
                self._derived[kind] = _Absent(str(skip), tried=tried)
        if isinstance(self._derived[kind], _Absent):
            raise self._derived[kind]
        return self._derived[kind]

    def _present(self, value: Any, kind: type) -> Any:  # noqa: ANN401
        if value is None:
            reason = self._evidence.why_missing(kind.__name__)
            noun = noun_of(kind.__name__)
            raise _Absent(f"no {noun}: {reason}" if reason else f"no {noun} in the evidence", tried=bool(reason))
        return value


def _run(check: Check, resolver: _Resolver) -> Outcome:
    given: list[Any] = []
    shown: tuple[Finding, ...] = ()
    try:
        shown = _shown_by_errors(check, resolver)
        given.extend(resolver(kind) for kind in check.inputs)
        found = _told_once((*shown, *check.function(*given)))
        return Ran(check.rule, tuple(_without_a_place(finding, resolver) for finding in found))
    except (_Absent, SkipCheck) as absent:
        if shown:
            return Ran(check.rule, shown)
        if isinstance(absent, _Absent):
            return Skipped(check.rule, absent.reason, absent.tried)
        return Skipped(check.rule, str(absent), tried=any(value is not None for value in given))
    except Exception as error:  # noqa: BLE001 - a broken check must not silence the others
        last = traceback.extract_tb(error.__traceback__)[-1]
        return Crashed(check.rule, f"{type(error).__name__}: {error} ({last.filename}:{last.lineno})")


def _without_a_place(finding: Finding, resolver: _Resolver) -> Finding:
    """The finding, which says so where it is about an exception in a log whose stack has no line of the user's own."""
    if finding.where or not finding.rule.errors:
        return finding
    failures: Failures | None = resolver(Failures | None)
    if failures is None or not failures.without_a_place(finding.code):
        return finding
    return replace(finding, details=(*finding.details, NO_PLACE))


def _shown_by_errors(check: Check, resolver: _Resolver) -> tuple[Finding, ...]:
    """What errors of the job show by themselves, of a rule whose check does not look at them."""
    if not any(error.sentence for error in check.rule.errors) or {Failures, Failures | None} & {*check.inputs}:
        return ()
    severity = Severity.FAIL if check.rule.severity is Severity.WARN else None
    return tuple(known_errors(check.rule, resolver(Failures | None), severity=severity))


def _matches(code: str, patterns: Collection[str]) -> bool:
    return any(code.startswith(pattern) for pattern in patterns)


def _told_once(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """The findings of a rule, of those at one place in source code the first: several callers lead to one mistake."""
    found: dict[object, Finding] = {}
    for number, finding in enumerate(findings):
        first = finding.where[0] if finding.where else None
        read = first is not None and first.rank is None and first.column is not None
        found.setdefault((first.file, first.line, first.column) if first is not None and read else number, finding)
    return tuple(found.values())


def _root_cause_first(findings: list[Finding]) -> list[Finding]:
    by_code: dict[str, str] = {}
    present = {finding.code: finding.rule for finding in findings}
    for rule in present.values():
        for symptom in rule.explains:
            if symptom in present:
                by_code.setdefault(symptom, rule.code)
    ranked = [replace(finding, explained_by=by_code.get(finding.code)) for finding in findings]
    return sorted(ranked, key=_order)


def _background(finding: Finding) -> Finding:
    """A fact about the host beside a running job is information: it never outranks what the job itself shows."""
    background = finding.rule.background and not finding.shown_by_job
    return replace(finding, severity=Severity.INFO) if background else finding


def _order(finding: Finding) -> tuple[bool, int, bool, str, tuple[str, int, int]]:
    """Symptoms after causes, then by severity; among equals facts about the host come after the job's own.

    The findings of one rule in source code come by file and line; all others as the rule gives them.
    """
    symptom = finding.explained_by is not None
    background = finding.rule.background and not finding.shown_by_job
    return (symptom, -finding.severity.rank, background, finding.code, _place(finding))


def _place(finding: Finding) -> tuple[str, int, int]:
    """Where a finding stands in source code; the same for all that name a rank or no place."""
    first = finding.where[0] if finding.where else None
    return (first.file, first.line, first.column or 0) if first is not None and first.rank is None else ("", 0, 0)
