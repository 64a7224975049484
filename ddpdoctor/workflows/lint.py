"""Reads launch scripts and training code, and judges both: what `ddpdoctor lint` does."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from ddpdoctor.catalogue import all_checks
from ddpdoctor.engine import diagnose, outcomes_about
from ddpdoctor.errors import UsageError
from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.scripts import ScriptFiles
from ddpdoctor.evidence.training_code import TrainingCode
from ddpdoctor.model import Finding, Outcome, Report
from ddpdoctor.secrets import redact_text
from ddpdoctor.source.launch_script_files import read_scripts, script_files
from ddpdoctor.source.notebooks import file_and_cell
from ddpdoctor.source.parallel_reading import read_training_code
from ddpdoctor.source.training_code import python_files, without_gc
from ddpdoctor.workflows.lint_baseline import without_known
from ddpdoctor.workflows.lint_config import LintConfig
from ddpdoctor.workflows.lint_silenced import without_silenced


@dataclass(frozen=True, slots=True)
class Linted:
    """What was read, and the report over it."""

    evidence: Evidence
    """The facts, for a case; of training code only its comments, unless all were asked for."""
    report: Report
    """The findings, without those that a comment, the configuration or the baseline leaves out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LintOptions:
    """What `lint` leaves out."""

    select: Collection[str] = ()
    """Only these codes or families; empty for those of the configuration."""
    ignore: Collection[str] = ()
    """Not these; empty for those of the configuration."""
    config: LintConfig = field(default_factory=LintConfig)
    """The project's configuration."""
    baseline: Path | None = None
    """A file with findings of old code; None where there is none."""
    facts: bool = False
    """Keep the facts about training code, for a case or a page: without them rules judge where the code is read."""


def lint_paths(paths: Sequence[Path], options: LintOptions | None = None) -> Linted:
    """The report over all scripts, manifests and Python files at `paths`.

    Raises:
        UsageError: a path does not exist, or the baseline cannot be read.
    """
    for path in paths:
        if not path.exists():
            raise UsageError(
                f"{path} does not exist", hint="give a Python program, a launch script, or a folder that holds some"
            )
    with without_gc():
        return _lint(paths, options or LintOptions())


def joined(report: Report, linted: Report) -> Report:
    """A report of a run and one of `lint` as one: each rule counts where it looked."""
    looked = {outcome.rule.code: outcome for outcome in linted.ran}
    return replace(
        report,
        outcomes=tuple(looked.get(outcome.rule.code, outcome) for outcome in report.outcomes),
        findings=(*report.findings, *linted.findings),
        notes=(*report.notes, *linted.notes),
        undecided=(*report.undecided, *linted.undecided),
    )


def _lint(paths: Sequence[Path], options: LintOptions) -> Linted:
    config = options.config
    wanted = _Wanted(config, paths)
    scripts = read_scripts([(path, own) for path, own in script_files(paths) if own or wanted(path)])
    files = scripts.files if scripts.files.scripts or scripts.files.manifests else None
    select, ignore = options.select or config.select, options.ignore or config.ignore
    judge = None if options.facts else partial(_judged, scripts=files, select=tuple(select), ignore=tuple(ignore))
    if judge is not None:
        all_checks()  # before processes are forked, so that each of them has the rules
    reading = read_training_code([path for path in python_files(paths) if wanted(path)], judge)
    unread = [f"{file} was passed over: {reason}" for file, reason in (*scripts.unreadable, *reading.unreadable)]
    nothing = files is None and not reading.code.modules
    nothing_read = (
        f"{'' if unread else ', '.join(map(str, paths)) + ': '}no launch script and no Python that could be read{wanted}; "
        "give `ddpdoctor lint` a Python 3 program, a launch script, or a folder that holds some"
    )
    evidence = Evidence(
        job=tuple(fact for fact in (files, reading.code if reading.code.modules else None) if fact is not None),
        launched=False,
        notes=() if nothing else tuple(unread),
        undecided=(*unread, nothing_read) if nothing else (),
    )
    report = diagnose(evidence, select=select, ignore=ignore, judged=reading.judged)
    findings = _once(_redacted(finding) for finding in report.findings)
    remarks = [remark for module in reading.code.modules for remark in module.remarks]
    looked = frozenset(outcome.rule.code for outcome in report.ran)
    kept, notes = without_silenced(
        findings, [*remarks, *scripts.files.remarks], looked, complete=not select and not ignore
    )
    kept = [each for each in kept if not each.where or wanted.shows(each.code, each.where[0].file)]
    if options.baseline is not None:
        kept, known, gone = without_known(kept, options.baseline)
        notes += _of_baseline(options.baseline, known, gone)
    return Linted(evidence, replace(report, findings=tuple(kept), notes=(*report.notes, *notes)))


def _judged(
    code: TrainingCode, scripts: ScriptFiles | None, select: Collection[str], ignore: Collection[str]
) -> tuple[Outcome, ...]:
    """What the rules about training code say of a part of it, beside all launch scripts."""
    facts = tuple(fact for fact in (scripts, code if code.modules else None) if fact is not None)
    return outcomes_about(TrainingCode, Evidence(job=facts, launched=False), select=select, ignore=ignore)


class _Wanted:
    """Which files are read, and which findings shown, by the configuration."""

    def __init__(self, config: LintConfig, paths: Sequence[Path]) -> None:
        self.config = config
        self.named = frozenset(Path(os.path.abspath(path)) for path in paths)  # noqa: PTH100 - links stay
        self.left_out = 0

    def __call__(self, file: Path) -> bool:
        """Whether a file that was found is read."""
        if Path(os.path.abspath(file)) not in self.named and self.config.excluded(file, self.named):  # noqa: PTH100
            self.left_out += 1
            return False
        return True

    def shows(self, code: str, place: str) -> bool:
        """Whether a finding is shown: not where its file is excluded and was read because others import it."""
        file = Path(file_and_cell(place)[0])
        return not self.config.ignored(code, place) and self(file)

    def __str__(self) -> str:
        files = "file is" if self.left_out == 1 else "files are"
        return f"; {self.left_out} {files} excluded by {self.config.folder / 'pyproject.toml'}" if self.left_out else ""


def _of_baseline(file: Path, known: int, gone: int) -> Iterator[str]:
    if known:
        yield f"{known} {'finding is' if known == 1 else 'findings are'} in the baseline {file} and left out"
    if gone:
        entries = "entry is" if gone == 1 else "entries are"
        yield f"{gone} {entries} in the baseline {file} and found no more: write it again"


def _once(findings: Iterable[Finding]) -> list[Finding]:
    """Each finding once: an alias of YAML stands for its text in several places."""
    return list({(each.code, each.message, each.where): each for each in findings}.values())


def _redacted(finding: Finding) -> Finding:
    return replace(
        finding,
        message=redact_text(finding.message),
        details=tuple(redact_text(detail) for detail in finding.details),
        remedy=redact_text(finding.remedy),
    )
