"""Evidence in, report out. Pure: the same evidence gives the same report, on any machine."""

from __future__ import annotations

import difflib
import importlib
import itertools
import pkgutil
import traceback
import typing
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from types import ModuleType
from typing import Any, Protocol, TypeVar

from ddpdoctor import analysis, checks
from ddpdoctor.analysis.crashes.end_request import as_requested, by_request_alone
from ddpdoctor.analysis.crashes.error_patterns import ErrorTable
from ddpdoctor.analysis.crashes.failures import NO_PLACE, Failures
from ddpdoctor.analysis.hangs.rank_activity import Activities
from ddpdoctor.analysis.hangs.wait_for_graph import WaitForGraph
from ddpdoctor.evidence import Evidence, PerRank, noun_of
from ddpdoctor.evidence.process import Stall
from ddpdoctor.grouping import grouped
from ddpdoctor.messages.attempts import over_all_attempts
from ddpdoctor.messages.known_errors import known_errors
from ddpdoctor.messages.unexplained import (
    calls_not_kept,
    lost_peers,
    motion,
    unexplained_failure,
    unexplained_stall,
    unexplained_waits,
)
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
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Check:
    """A rule with the function that looks for it."""

    rule: Rule
    """What the findings of the function are."""
    function: Callable[..., Iterable[Finding]]
    """Takes the evidence in `inputs`, in this order."""
    inputs: tuple[Any, ...]
    """The annotations of its parameters: `PerRank[K]`, a kind of job or derived fact, each perhaps `
    None`.
    """


class _Absent(Exception):  # noqa: N818 - carries a reason, is never shown
    """Evidence that a check or an analysis declares is not there; `tried`: a collector said why."""

    def __init__(self, reason: str, *, tried: bool) -> None:
        super().__init__(reason, tried)
        self.reason = reason
        self.tried = tried


@dataclass(frozen=True, slots=True)
class _Why:
    """Why something could not be derived, as `_Absent`. An exception would keep all that the functions held that it left."""

    reason: str
    tried: bool


def diagnose(
    evidence: Evidence,
    *,
    select: Collection[str] = (),
    ignore: Collection[str] = (),
    judged: Iterable[Sequence[Outcome]] = (),
) -> Report:
    """The report of every rule over `evidence`; with `select` only of these codes, with `ignore` without those.

    A prefix such as `DDP3` stands for its family. Findings come root cause first; a finding whose code another's rule
    `explains` carries that code in `explained_by` and comes after it. A rule that `outcomes_about` has asked about the parts
    of the evidence is not asked again: its outcomes, part by part, are `judged`. The attempts of a job that was restarted are
    judged each by itself.
    """
    last = _of_one_attempt(evidence, select, ignore, judged)
    earlier = [_of_one_attempt(attempt, select, ignore, ()) for attempt in evidence.earlier]
    return over_all_attempts(last, earlier, evidence)


def _of_one_attempt(
    evidence: Evidence, select: Collection[str], ignore: Collection[str], judged: Iterable[Sequence[Outcome]]
) -> Report:
    evidence = as_requested(evidence)
    resolver = _Resolver(evidence)
    known = _of_all_parts(judged)
    outcomes = tuple(
        known[check.rule.code] if check.rule.code in known else _run(check, resolver)
        for check in _asked_for(select, ignore)
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
    open_ = [*unexplained_failure(failures, explained=report.explained)] if failures is not None and logged else []
    if not report.explained:
        graph: WaitForGraph | None = resolver(WaitForGraph | None)
        stalled = unexplained_stall(evidence, resolver(Activities | None))
        waits = [*stalled, *calls_not_kept(graph), *motion(graph)] or unexplained_waits(graph)
        open_ = [*waits, *lost_peers(evidence, failures), *open_]
    return replace(report, undecided=(*report.undecided, *open_))


def outcomes_about(
    kind: type, evidence: Evidence, *, select: Collection[str] = (), ignore: Collection[str] = ()
) -> tuple[Outcome, ...]:
    """The outcomes of the rules that look at facts of this kind, over a part of the evidence: see `diagnose`."""
    resolver = _Resolver(evidence)
    return tuple(_run(check, resolver) for check in _asked_for(select, ignore) if kind in _read_by(check.inputs))


def _asked_for(select: Collection[str], ignore: Collection[str]) -> Iterator[Check]:
    for check in all_checks(*select):
        if not _matches(check.rule.code, ignore):
            yield check


def _of_all_parts(judged: Iterable[Sequence[Outcome]]) -> dict[str, Outcome]:
    """One outcome of each rule, by its code: it crashed where it crashed in one part, and ran where it ran in one.

    Of two parts whose findings name the same place the first counts.
    """
    found = grouped((outcome.rule.code, outcome) for outcome in itertools.chain.from_iterable(judged))
    return {code: _of_parts(outcomes) for code, outcomes in found.items()}


def _of_parts(outcomes: Sequence[Outcome]) -> Outcome:
    for outcome in outcomes:
        if isinstance(outcome, Crashed):
            return outcome
    ran = [outcome for outcome in outcomes if isinstance(outcome, Ran)]
    if not ran:
        return outcomes[0]
    kept: list[Finding] = []
    for outcome in ran:
        named = {where for finding in kept for where in finding.where}
        kept += [finding for finding in outcome.findings if named.isdisjoint(finding.where)]
    return Ran(ran[0].rule, tuple(kept))


@cache
def _read_by(inputs: tuple[Any, ...]) -> frozenset[Any]:
    """The kinds of evidence that a rule with these inputs looks at, by itself or through what is derived for it."""
    found: set[Any] = set()
    pending = [*inputs]
    while pending:
        kind = pending.pop()
        pending += [inner for inner in typing.get_args(kind) if inner is not type(None)]
        if kind not in found:
            found.add(kind)
            pending += inputs_of(kind)
    return frozenset(found)


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
def all_checks(*select: str) -> tuple[Check, ...]:
    """Every check in the package, in order of code; with `select` those of these codes, and no other file is imported.

    A check's file begins with its code.
    """
    found = []
    for name in _names(checks):
        if not select or _matches(name.rpartition(".")[2].upper(), select):
            module = importlib.import_module(name)
            found.append(Check(module.RULE, module.check, _declared(module.check)))
    return tuple(sorted(found, key=lambda check: check.rule.code))


def all_rules() -> tuple[Rule, ...]:
    """Every rule in the package, in order of code."""
    return tuple(check.rule for check in all_checks())


def rule_called(word: str) -> Rule | None:
    """The rule with this code, `DDP305` or `305`, or with this name, in either case; None where there is none."""
    code, name = word.upper(), word.lower()
    return next((rule for rule in all_rules() if code in {rule.code, rule.code[3:]} or name == rule.name), None)


def nearest_name(word: str) -> str:
    """The code or the name of a rule that is most like a word; empty where none is like it.

    Codes of two families have nothing in common but digits: the nearest code is one of the family that the word begins with.
    """
    family = word.upper()[:4]
    codes = [rule.code for rule in all_rules() if len(word) > len(family) and rule.code.startswith(family)]
    names = [rule.name for rule in all_rules()]
    near = difflib.get_close_matches(word.upper(), codes, n=1) or difflib.get_close_matches(word.lower(), names, n=1)
    return near[0] if near else ""


@cache
def error_table() -> ErrorTable:
    """The texts of errors that all rules declare."""
    return ErrorTable.of(all_rules())


def _names(package: ModuleType) -> list[str]:
    """The names of its modules."""
    return [module.name for module in pkgutil.walk_packages(package.__path__, prefix=f"{package.__name__}.")]


def _declared(function: Callable[..., Any]) -> tuple[Any, ...]:
    hints = typing.get_type_hints(function)
    hints.pop("return", None)
    return tuple(hints.values())


@cache
def _analyses() -> dict[Any, tuple[Callable[..., Any], tuple[Any, ...]]]:
    """The kind that each analysis derives, with its function and what that declares."""
    found: dict[Any, tuple[Callable[..., Any], tuple[Any, ...]]] = {}
    for name in _names(analysis):
        derive = getattr(importlib.import_module(name), "derive", None)
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
                self._derived[kind] = _Why(absent.reason, absent.tried)
            except SkipCheck as skip:  # over nothing at all it was not this command's business
                tried = any(value is not None and not isinstance(value, ErrorTable) for value in given)
                self._derived[kind] = _Why(str(skip), tried)
        found = self._derived[kind]
        if isinstance(found, _Why):
            raise _Absent(found.reason, tried=found.tried)
        return found

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
