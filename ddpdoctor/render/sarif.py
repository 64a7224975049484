"""The report as SARIF 2.1.0, which code scanning services read."""

from __future__ import annotations

import json
import re
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from ddpdoctor import __version__
from ddpdoctor.model import Finding, Report, Rule, Severity, Where

_LEVEL = {Severity.FAIL: "error", Severity.WARN: "warning", Severity.INFO: "note"}
_CELL = re.compile(r":cell \d+$")


def render(report: Report) -> str:
    """One SARIF document with one run; `uri`s are relative where the files were named so."""
    return json.dumps(document(report), indent=2) + "\n"


def document(report: Report) -> dict[str, Any]:
    """The document as JSON-able dicts: the rules that found something, the findings, and why there is no verdict."""
    rules = {finding.code: finding.rule for finding in report.findings}
    codes = sorted(rules)
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "ddpdoctor",
                        "semanticVersion": __version__,
                        "rules": [_rule(rules[code]) for code in codes],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "results": [_result(finding, codes.index(finding.code)) for finding in report.findings],
                "invocations": [
                    {
                        "executionSuccessful": not report.crashed and not report.undecided,
                        "toolExecutionNotifications": [
                            *({"level": "note", "message": {"text": note}} for note in report.notes),
                            *({"level": "warning", "message": {"text": reason}} for reason in report.undecided),
                            *(
                                {"level": "error", "message": {"text": f"{crash.rule.code} crashed: {crash.error}"}}
                                for crash in report.crashed
                            ),
                        ],
                    }
                ],
            }
        ],
    }


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.code,
        "name": "".join(part.capitalize() for part in rule.name.split("-")),
        "shortDescription": {"text": rule.summary},
        "help": {"text": rule.remedy},
        "defaultConfiguration": {"level": _LEVEL[rule.severity]},
    }


def _result(finding: Finding, index: int) -> dict[str, Any]:
    text = "\n".join([finding.message, *finding.details, f"what to do: {finding.remedy}"])
    first, others = finding.where[:1], finding.where[1:]
    return {
        "ruleId": finding.code,
        "ruleIndex": index,
        "level": _LEVEL[finding.severity],
        "message": {"text": text},
        "locations": [_location(where) for where in first],
        **({"relatedLocations": [_location(where) for where in others]} if others else {}),
    }


def _location(where: Where) -> dict[str, Any]:
    return {
        "physicalLocation": {
            "artifactLocation": {"uri": _uri(_CELL.sub("", where.file))},
            "region": {"startLine": max(1, where.line), **({"startColumn": where.column} if where.column else {})},
        },
        **({"message": {"text": where.note}} if where.note else {}),
        **({"logicalLocations": [{"name": where.function}]} if where.function else {}),
    }


def _uri(file: str) -> str:
    path = PurePath(file)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix())
