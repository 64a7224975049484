"""The report as JUnit XML: a test case for each rule that was looked at; any CI shows failed, skipped and crashed checks."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from typing_extensions import assert_never

from ddpdoctor.model import Crashed, Finding, Outcome, Ran, Report, Severity, Skipped
from ddpdoctor.render import places, quoted_report


def render(report: Report, *, suite: str = "ddpdoctor", fail_on: Severity = Severity.FAIL) -> str:
    """One `testsuite`; a finding at or above `fail_on` is a failure, one below it stands in `system-out`.

    A check is left out where nobody tried to collect what it needs: `skipped` would read as a gap.
    """
    report = quoted_report(report)
    root = ET.Element("testsuite", name=suite)
    for outcome in report.outcomes:
        if isinstance(outcome, Skipped) and not outcome.tried:
            continue
        _case(ET.SubElement(root, "testcase", classname=suite, name=_title(outcome)), outcome, fail_on)
    for reason in report.undecided:
        case = ET.SubElement(root, "testcase", classname=suite, name="undecided")
        ET.SubElement(case, "error", message=reason)
    counts = {tag: len(root.findall(f"testcase/{tag}")) for tag in ("failure", "error", "skipped")}
    root.set("tests", str(len(root)))
    root.set("failures", str(counts["failure"]))
    root.set("errors", str(counts["error"]))
    root.set("skipped", str(counts["skipped"]))
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _title(outcome: Outcome) -> str:
    return f"{outcome.rule.code} {outcome.rule.name}"


def _case(case: ET.Element, outcome: Outcome, fail_on: Severity) -> None:
    match outcome:
        case Ran(findings=findings):
            failing = [finding for finding in findings if finding.severity.rank >= fail_on.rank]
            if failing:
                worst = failing[0]
                failure = ET.SubElement(case, "failure", message=worst.message, type=worst.severity.value)
                failure.text = "\n\n".join(_body(finding) for finding in failing)
            quiet = [finding for finding in findings if finding not in failing]
            if quiet:
                ET.SubElement(case, "system-out").text = "\n\n".join(_body(finding) for finding in quiet)
        case Skipped(reason=reason):
            ET.SubElement(case, "skipped", message=reason)
        case Crashed(error=error):
            ET.SubElement(case, "error", message=error)
        case _:
            assert_never(outcome)


def _body(finding: Finding) -> str:
    lines = [finding.message, *(f"  {place.who}  {place.spot}  {place.note}".rstrip() for place in places(finding))]
    lines += [f"  {detail}" for detail in finding.details]
    return "\n".join([*lines, f"what to do: {finding.remedy}"])
