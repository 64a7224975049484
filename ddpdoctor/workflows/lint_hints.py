"""What `lint` would have said of the lines that a run-time finding names, before the job ran."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from ddpdoctor.errors import DdpdoctorError
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.source import Request
from ddpdoctor.model import Finding, Report, Severity
from ddpdoctor.source.stack_lines.context import source_of

_OF_A_RUN = ("DDP2", "DDP3", "DDP4", "DDP5")
_OF_A_HANG = "DDP3"
_OF_SOME = "DDP730"
_OF_ANY_ERROR = "DDP401"  # what a rank raised may be anything: only the line tells that it is what lint means
MOST_FILES = 16
MOST_BYTES = (
    256 << 10
)  # of one file: some 6,500 lines, which take half a second of processor time; generated code is larger


def with_lint(report: Report) -> Report:
    """`report` with a line below each run-time finding whose line of Python `lint` names too, or whose cause in the same file.

    Only files that are here and that the report names are read; nothing in them is imported or run.
    """
    linted = _said_of({file for finding in report.findings for file in _files(finding)})
    return replace(report, findings=tuple(_with(finding, linted) for finding in report.findings)) if linted else report


def suspects(files: Iterable[str]) -> tuple[str, ...]:
    """A sentence for each line of these files of which `lint` says that it can make ranks wait for each other."""
    linted = _said_of({file for file in files if _is_readable(file)})
    return tuple(
        f"lint suspects {each.where[0].file}:{each.where[0].line}: {each.code} {each.message}"
        for each in linted
        if any(code.startswith(_OF_A_HANG) for code in each.rule.leads_to)
    )


def collectives_of_some(files: Iterable[str]) -> tuple[Request, ...]:
    """The calls in these files that all ranks must make, and that a test of the rank leaves to some, as `lint` finds them."""
    places = [
        each.where[0] for each in _said_of({file for file in files if _is_readable(file)}) if each.code == _OF_SOME
    ]
    code = source_of(Frame(file=at.file, line=at.line, function=at.function) for at in places)
    return tuple(
        Request(
            file=place.file,
            line=place.line,
            function=place.function,
            text=place.excerpt[place.line - place.excerpt_from].strip(),
            wants="collective",
            conditions=place.conditions,
        )
        for place in (code.places if code is not None else ())
    )


def _said_of(files: Collection[str]) -> list[Finding]:
    """What `lint` says of the first of these files, without mere information."""
    if not files:
        return []
    from ddpdoctor.workflows.lint import LintOptions, lint_paths  # a tenth of what a command without such files costs
    from ddpdoctor.workflows.lint_config import config_for

    paths = [Path(file) for file in sorted(files)[:MOST_FILES]]
    try:
        linted = lint_paths(paths, LintOptions(config=config_for(paths))).report.findings
    except DdpdoctorError:
        return []  # a broken pyproject.toml is no matter of this report
    return [finding for finding in linted if finding.severity is not Severity.INFO and finding.where]


def _files(finding: Finding) -> Iterator[str]:
    if not finding.code.startswith(_OF_A_RUN) or finding.severity is Severity.INFO:
        return
    for where in finding.where:
        if _is_readable(where.file):
            yield where.file


def _is_readable(file: str) -> bool:
    return file.endswith(".py") and "site-packages" not in file and _is_small(Path(file))


def _is_small(file: Path) -> bool:
    """Whether it is a file that is read in a moment: a verdict does not wait for hints."""
    try:
        return file.is_file() and file.stat().st_size <= MOST_BYTES
    except OSError:
        return False


def _with(finding: Finding, linted: list[Finding]) -> Finding:
    lines = {(where.file, where.line) for where in finding.where}
    files = {*_files(finding)}
    hints = [
        f"lint would have said this: {each.code} {each.rule.name}, {each.where[0].file}:{each.where[0].line}"
        for each in linted
        if files
        and (
            any((where.file, where.line) in lines for where in each.where)
            or (_leads_to(each, finding.code) and each.where[0].file in files)
        )
    ]
    return replace(finding, details=(*finding.details, *dict.fromkeys(hints)))


def _leads_to(cause: Finding, code: str) -> bool:
    return code in cause.rule.leads_to and code != _OF_ANY_ERROR
