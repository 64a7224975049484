"""Evidence in, report out. Pure: the same evidence gives the same report, on any machine."""

from __future__ import annotations

import itertools
import traceback
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from ddpdoctor.analysis.crashes.end_request import as_requested, by_request_alone
from ddpdoctor.analysis.crashes.failures import NO_PLACE, Failures
from ddpdoctor.analysis.hangs.rank_activity import Activities
from ddpdoctor.analysis.hangs.wait_for_graph import WaitForGraph
from ddpdoctor.catalogue import Check, all_checks, has_prefix, kinds_read_by
from ddpdoctor.derivation import Absent, Resolver
from ddpdoctor.evidence import Evidence
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
    Severity,
    SkipCheck,
    Skipped,
)


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
    resolver = Resolver(evidence)
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
    asked = by_request_alone(evidence)
    # of a job that hangs, or that somebody ended while it ran, the log is no verdict
    logged = evidence.one(Stall) is None and not asked
    open_ = [*unexplained_failure(failures, explained=report.explained)] if failures is not None and logged else []
    if not report.explained:
        graph: WaitForGraph | None = resolver(WaitForGraph | None)
        stalled = unexplained_stall(evidence, resolver(Activities | None))
        waits = [*stalled, *calls_not_kept(graph), *motion(graph)] or unexplained_waits(graph)
        open_ = [*waits, *(lost_peers(evidence, failures) if not asked else ()), *open_]
    return replace(report, undecided=(*report.undecided, *open_))


def outcomes_about(
    kind: type, evidence: Evidence, *, select: Collection[str] = (), ignore: Collection[str] = ()
) -> tuple[Outcome, ...]:
    """The outcomes of the rules that look at facts of this kind, over a part of the evidence: see `diagnose`."""
    resolver = Resolver(evidence)
    return tuple(_run(check, resolver) for check in _asked_for(select, ignore) if kind in kinds_read_by(check.inputs))


def _asked_for(select: Collection[str], ignore: Collection[str]) -> Iterator[Check]:
    for check in all_checks(*select):
        if not has_prefix(check.rule.code, ignore):
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


def _run(check: Check, resolver: Resolver) -> Outcome:
    given: list[Any] = []
    shown: tuple[Finding, ...] = ()
    try:
        shown = _shown_by_errors(check, resolver)
        given.extend(resolver(kind) for kind in check.inputs)
        found = _told_once((*shown, *check.function(*given)))
        return Ran(check.rule, tuple(_without_a_place(finding, resolver) for finding in found))
    except (Absent, SkipCheck) as absent:
        if shown:
            return Ran(check.rule, shown)
        if isinstance(absent, Absent):
            return Skipped(check.rule, absent.reason, absent.tried)
        return Skipped(check.rule, str(absent), tried=any(value is not None for value in given))
    except Exception as error:  # noqa: BLE001 - a broken check must not silence the others
        last = traceback.extract_tb(error.__traceback__)[-1]
        return Crashed(check.rule, f"{type(error).__name__}: {error} ({last.filename}:{last.lineno})")


def _without_a_place(finding: Finding, resolver: Resolver) -> Finding:
    """The finding, which says so where it is about an exception in a log whose stack has no line of the user's own."""
    if finding.where or not finding.rule.errors:
        return finding
    failures: Failures | None = resolver(Failures | None)
    if failures is None or not failures.without_a_place(finding.code):
        return finding
    return replace(finding, details=(*finding.details, NO_PLACE))


def _shown_by_errors(check: Check, resolver: Resolver) -> tuple[Finding, ...]:
    """What errors of the job show by themselves, of a rule whose check does not look at them."""
    if not any(error.sentence for error in check.rule.errors) or {Failures, Failures | None} & {*check.inputs}:
        return ()
    severity = Severity.FAIL if check.rule.severity is Severity.WARN else None
    return tuple(known_errors(check.rule, resolver(Failures | None), severity=severity))


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
