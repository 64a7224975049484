"""Scripts and manifests that were written to attack lint: the planted mistake is named, and a healthy one gets no warning."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ddpdoctor.model import Severity
from ddpdoctor.workflows.lint import LintOptions, lint_paths

_TEXT = (Path(__file__).parents[1] / "data" / "planted" / "launch.txt").read_text(encoding="utf-8")
FILES = [
    (*head.split(), body)
    for head, _, body in (part.partition("\n") for part in re.split(r"^=== ", _TEXT, flags=re.MULTILINE)[1:])
]
"""Name, code of the mistake or `-`, and the text."""


@pytest.mark.parametrize(("name", "code", "text"), FILES, ids=[name for name, _, _ in FILES])
def test_the_planted_mistake_is_named(name: str, code: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")

    found = lint_paths([tmp_path / name], LintOptions(select=("DDP7",))).report.findings

    if code == "-":
        assert not [each.message for each in found if each.severity is not Severity.INFO]
    else:
        assert code in {each.code for each in found}


def test_what_an_alias_repeats_is_named_once(tmp_path: Path) -> None:
    pods = "template: &pod\n        spec:\n          hostIPC: true\n          containers:\n"
    pods += "          - {name: a, command: [torchrun, --nnodes=4, train.py]}\n"
    file = tmp_path / "job.yaml"
    file.write_text(
        "kind: PyTorchJob\nspec:\n  runPolicy: {backoffLimit: 0}\n  pytorchReplicaSpecs:\n"
        f"    Master:\n      {pods}    Worker:\n      template: *pod\n"
    )

    found = lint_paths([file], LintOptions(select=("DDP7",))).report.findings

    assert [each.code for each in found] == ["DDP768"]
