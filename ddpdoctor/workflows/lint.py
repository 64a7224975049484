"""Reads launch scripts and training code, and judges both: what `ddpdoctor lint` does."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ddpdoctor.engine import diagnose
from ddpdoctor.errors import UsageError
from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.training_code import Remark, TrainingCode
from ddpdoctor.model import Finding, Report
from ddpdoctor.secrets import redact_text
from ddpdoctor.source.launch_script_files import read_scripts
from ddpdoctor.source.parallel_reading import read_training_code
from ddpdoctor.source.training_code import SUFFIXES, without_gc


@dataclass(frozen=True, slots=True)
class Linted:
    """What was read, and the report over it."""

    evidence: Evidence
    """The facts, for a case."""
    report: Report
    """The findings, without those that a comment silences."""


def lint_paths(paths: Sequence[Path], *, select: Collection[str] = (), ignore: Collection[str] = ()) -> Linted:
    """The report over all scripts and Python files at `paths`.

    Raises:
        UsageError: a path does not exist.
    """
    for path in paths:
        if not path.exists():
            raise UsageError(f"{path} cannot be read: No such file or directory")
    with without_gc():
        return _lint(paths, select, ignore)


def _lint(paths: Sequence[Path], select: Collection[str], ignore: Collection[str]) -> Linted:
    scripts = read_scripts([path for path in paths if path.is_dir() or path.suffix not in SUFFIXES])
    files = scripts.files if scripts.files.scripts or scripts.files.manifests else None
    reading = read_training_code(paths)
    unread = [f"{file} was passed over: {reason}" for file, reason in (*scripts.unreadable, *reading.unreadable)]
    nothing = files is None and not reading.code.modules
    named = ", ".join(map(str, paths))
    evidence = Evidence(
        job=tuple(fact for fact in (files, reading.code if reading.code.modules else None) if fact is not None),
        launched=False,
        notes=() if nothing else tuple(unread),
        undecided=(*unread, f"{named}: no launch script and no Python that could be read") if nothing else (),
    )
    report = diagnose(evidence, select=select, ignore=ignore)
    findings = [_redacted(finding) for finding in report.findings]
    kept, notes = _without_silenced(findings, reading.code, complete=not select and not ignore)
    return Linted(evidence, replace(report, findings=tuple(kept), notes=(*report.notes, *notes)))


def _redacted(finding: Finding) -> Finding:
    return replace(
        finding,
        message=redact_text(finding.message),
        details=tuple(redact_text(detail) for detail in finding.details),
        remedy=redact_text(finding.remedy),
    )


def _without_silenced(
    findings: list[Finding], code: TrainingCode, *, complete: bool
) -> tuple[list[Finding], list[str]]:
    """The findings that no comment silences, and a note for each comment that silences nothing."""
    remarks = [remark for module in code.modules for remark in module.remarks]
    used: set[Remark] = set()
    kept = []
    for finding in findings:
        silencing = [remark for remark in remarks if _silences(remark, finding)]
        used.update(silencing)
        if not silencing:
            kept.append(finding)
    return kept, list(_unused(remarks, used)) if complete else []


def _silences(remark: Remark, finding: Finding) -> bool:
    if remark.codes and finding.code not in remark.codes:
        return False
    return any((where.file, where.line) == (remark.file, remark.line) for where in finding.where[:1])


def _unused(remarks: list[Remark], used: set[Remark]) -> Iterator[str]:
    for remark in remarks:
        if remark not in used:
            codes = f"[{', '.join(remark.codes)}]" if remark.codes else ""
            yield f"{remark.file}:{remark.line}: `ddpdoctor: ignore{codes}` silences nothing"
