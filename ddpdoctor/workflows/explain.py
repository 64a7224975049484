"""What a line of text, an excerpt of a log or a symptom can mean."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

from ddpdoctor.catalogue import all_rules
from ddpdoctor.engine import diagnose
from ddpdoctor.errors import UndecidedError, UsageError
from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.job_log import JobLog
from ddpdoctor.launch.private_directory import private_directory
from ddpdoctor.logs.failure_signs import explains_a_failure, shows_a_failure
from ddpdoctor.logs.log_lines import LogLine, lines_of
from ddpdoctor.model import Finding, Severity
from ddpdoctor.redaction import redact
from ddpdoctor.symptoms.index import Match, MatchedBy, SymptomIndex
from ddpdoctor.workflows.diagnose import gather, is_text

MAX_LINES = 40  # that are looked up: an excerpt has fewer, and of a log the first failures count
PROVEN, LIKELY = 2.0, 0.95  # the score of a finding, and of one that only says that something failed
END_ALONE = {"DDP401", "DDP403"}  # say how a rank ended and not why: a symptom of the same words tells more


def explain_text(text: str) -> tuple[Match, ...]:
    """The findings that `text` can mean, the most likely first; empty where it resembles nothing that is known."""
    with private_directory() as folder:
        file = folder.path / "text.log"
        file.write_text(text, encoding="utf-8", errors="replace")
        return explain_file(file)


def explain_file(file: Path) -> tuple[Match, ...]:
    """The findings that a log or an excerpt of one can mean, the most likely first.

    Raises:
        UsageError: it is no text: a binary file, or a dump or a saved case, which show more than a text does.
    """
    shown = {match.rule.code: match for match in _shown_by_log(file)}
    lines = [line.text for line in islice(_telling(file), MAX_LINES)]
    looked_up = {match.rule.code: match for match in SymptomIndex.of(all_rules()).find(lines)}
    scores = {code: max(each[code].score for each in (shown, looked_up) if code in each) for code in shown | looked_up}
    found = (replace(match, score=scores[code]) for code, match in (looked_up | shown).items())
    return tuple(sorted(found, key=lambda match: -match.score))


def _shown_by_log(file: Path) -> Iterator[Match]:
    """What the readers of logs and the rules find in it."""
    try:
        evidence = gather([file])
    except UndecidedError:
        if not file.stat().st_size:
            raise UsageError("the text is empty", hint="give a log, a text in quotes, or - for stdin") from None
        if not is_text(file):
            raise UsageError(
                "this is binary data and no text", hint="give a log, a text in quotes, or - for stdin"
            ) from None
        return
    if evidence.one(JobLog) is None:
        raise UsageError(f"{file} is no text", hint=f"`ddpdoctor diagnose {file}` reads dumps and saved cases")
    for place, finding in enumerate(_findings(evidence)):
        certain = finding.severity is Severity.FAIL and finding.code not in END_ALONE
        score = (PROVEN if certain else LIKELY) - place / 100
        rule, remedy = finding.rule, finding.remedy
        yield Match(rule=rule, by=MatchedBy.LOG, seen_as=finding.message, score=score, remedy=remedy)


def _findings(evidence: Evidence) -> Iterator[Finding]:
    return (
        finding
        for finding in diagnose(redact(evidence)).findings
        if finding.severity is not Severity.INFO and finding.explained_by is None
    )


def _telling(file: Path) -> Iterator[LogLine]:
    """The lines that show a failure or explain one; all lines where none does."""
    found = False
    for line in lines_of(file):
        if line.suspect and (shows_a_failure(line.text) or explains_a_failure(line.text)):
            found = True
            yield line
    if not found:
        yield from (line for line in lines_of(file) if line.text.strip())
