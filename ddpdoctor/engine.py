"""Evidence in, report out. Pure: the same evidence gives the same report, on any machine."""

from __future__ import annotations

import importlib
import pkgutil
import traceback
import typing
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from types import ModuleType
from typing import Any

from ddpdoctor import analysis, checks
from ddpdoctor.analysis.failures import Failures, who
from ddpdoctor.analysis.known_errors import OF_A_PEER
from ddpdoctor.evidence import Evidence, PerRank
from ddpdoctor.evidence.process import Stall
from ddpdoctor.evidence.ranks import JobSize
from ddpdoctor.model import Crashed, Finding, Outcome, Ran, Report, Rule, Severity, SkipCheck, Skipped, group_ranks


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
    if report.explained or select:
        return report
    lost = _lost(evidence, resolver(Failures | None))
    return replace(report, undecided=(*report.undecided, *_unexplained(evidence), *lost))


def _unexplained(evidence: Evidence) -> Iterator[str]:
    """`the job has stood still for 12 s, and what its ranks show does not say why; not seen: Stacks of rank 2 (...)`."""
    stall = evidence.one(Stall)
    if stall is None or stall.seconds is None:
        return
    unseen = [f"{each.kind} of rank {each.rank} ({each.reason})" for each in evidence.missing if each.rank is not None]
    not_seen = f"; not seen: {', '.join(unseen)}" if unseen else ""
    yield f"the job has stood still for {stall.seconds:.0f} s, and what its ranks show does not say why{not_seen}"


def _lost(evidence: Evidence, failures: Failures | None) -> Iterator[str]:
    """`ranks 0-1 lost a peer, and nothing is known here of ranks 2-3 of 4`: one of those ended first, or their node did.

    Of logs alone, which tell no size: that the peer's own words are not among them.
    """
    if failures is None:
        return
    size = evidence.one(JobSize)
    unknown = {*range(size.ranks)} - {facts.rank for facts in evidence.ranks} if size is not None else set()
    if size is not None and unknown and failures.lost:
        yield (
            f"{who(failures.lost)} lost a peer, and nothing is known here of {group_ranks([*unknown])} of {size.ranks}: their "
            "log, or the case of `ddpdoctor watch` on their node, tells whether they failed; if neither is there, is the node?"
        )
    elif failures.log is not None and (told := [failure for failure in failures.all if failure.echo in OF_A_PEER]):
        yield f"{who(told)} failed because of a peer, whose own error is not here: give the logs of all ranks"


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


def _modules(package: ModuleType) -> list[ModuleType]:
    names = [module.name for module in pkgutil.iter_modules(package.__path__)]
    return [importlib.import_module(f"{package.__name__}.{name}") for name in names]


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

    def __call__(self, kind: Any) -> Any:  # noqa: ANN401 - kinds are data
        if type(None) in typing.get_args(kind):
            return self._optional(kind)
        if typing.get_origin(kind) is PerRank:
            (inner,) = typing.get_args(kind)
            return self._present(self._evidence.per_rank(inner), inner)
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
                self._derived[kind] = _Absent(str(skip), tried=any(value is not None for value in given))
        if isinstance(self._derived[kind], _Absent):
            raise self._derived[kind]
        return self._derived[kind]

    def _present(self, value: Any, kind: type) -> Any:  # noqa: ANN401
        if value is None:
            reason = self._evidence.why_missing(kind.__name__)
            raise _Absent(f"no {kind.__name__}: {reason or 'this evidence was not collected'}", tried=bool(reason))
        return value


def _run(check: Check, resolver: _Resolver) -> Outcome:
    given: list[Any] = []
    try:
        given.extend(resolver(kind) for kind in check.inputs)
        return Ran(check.rule, tuple(check.function(*given)))
    except _Absent as absent:
        return Skipped(check.rule, absent.reason, absent.tried)
    except SkipCheck as skip:
        return Skipped(check.rule, str(skip), tried=any(value is not None for value in given))
    except Exception as error:  # noqa: BLE001 - a broken check must not silence the others
        last = traceback.extract_tb(error.__traceback__)[-1]
        return Crashed(check.rule, f"{type(error).__name__}: {error} ({last.filename}:{last.lineno})")


def _matches(code: str, patterns: Collection[str]) -> bool:
    return any(code.startswith(pattern) for pattern in patterns)


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
    return replace(finding, severity=Severity.INFO) if finding.code.startswith(("DDP1", "DDP603")) else finding


def _order(finding: Finding) -> tuple[bool, int, bool, str]:
    """Symptoms after causes, then by severity; among equals facts about the host come after the job's own."""
    symptom = finding.explained_by is not None
    return (symptom, -finding.severity.rank, finding.code.startswith("DDP1"), finding.code)
