"""What machines read, and the schema that promises it."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from ddpdoctor.model import Report
from ddpdoctor.render import json as render_json
from tests.render import HEALTHY, REPORT

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "report.schema.json").read_text())


@pytest.mark.parametrize("report", [REPORT, HEALTHY, Report(outcomes=(), findings=())])
def test_the_document_keeps_the_published_schema(report: Report) -> None:
    document = json.loads(render_json.render(report))
    jsonschema.Draft202012Validator(SCHEMA).validate(document)


def test_the_schema_is_not_satisfied_by_anything() -> None:
    document = json.loads(render_json.render(REPORT))
    document["findings"][0]["severity"] = "terrible"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(SCHEMA).validate(document)


def test_the_root_cause_comes_first_and_its_symptom_names_it() -> None:
    cause, symptom = json.loads(render_json.render(REPORT))["findings"]
    assert (cause["code"], cause["ranks"], cause["explained_by"]) == ("DDP305", [0], None)
    assert cause["where"][0] == {
        "rank": 0, "file": "train.py", "line": 88, "function": "validate", "note": "waits 6.2 s",
    }  # fmt: skip
    assert (symptom["code"], symptom["explained_by"]) == ("DDP408", "DDP305")


def test_numbers_that_json_does_not_know_are_null_and_keys_are_strings() -> None:
    measured = json.loads(render_json.render(REPORT))["findings"][0]["measured"]
    assert measured == {"calls": {"0": 42, "1": 41}, "waited_seconds": None}
