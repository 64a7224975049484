"""A rank that computes at one line makes progress where the `for` around it comes to another item, whatever that is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.host.running_jobs import RunningJob
from ddpdoctor.model import Severity
from ddpdoctor.ranks.stacks import FrameVariables
from ddpdoctor.ranks.target import Target
from ddpdoctor.source.stack_lines.context import source_of
from ddpdoctor.workflows import hang as workflow
from tests.hangs import hang, rank

TEXT = """def tokenize(lines, found):
    for line, number in lines:
        count(found, line)
    while True:
        count(found, line)
"""


def looked(folder: Path, monkeypatch: pytest.MonkeyPatch, line: int, name: str, values: tuple[int, int]) -> Severity:
    """What a rank is reported as that computes at this line, whose variable has these fingerprints."""
    script = folder / "train.py"
    script.write_text(TEXT)
    at = Frame(file=str(script), line=line, function="tokenize")
    code = source_of([at])
    assert code is not None
    works = rank((at,), active=True, cpu_share=0.1, state="R")
    evidence: Evidence = hang(works, rank(), seconds=None, facts=(code,))
    targets = tuple(Target(rank=number, pid=100 + number) for number in range(2))
    job = RunningJob(name="job", targets=targets, world_size=2, environ={}, command="")
    looks: Iterator[int] = iter(values)

    def variables(_: RunningJob) -> dict[int, FrameVariables]:
        return {100: FrameVariables({}, {(0, str(script), "tokenize", name): next(looks)})}

    monkeypatch.setattr(workflow, "_variables", variables)
    (found,) = diagnose(workflow._with_counts(evidence, job, variables(job))).findings
    assert found.code == "DDP307"
    return found.severity


def test_another_item_is_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert looked(tmp_path, monkeypatch, 3, "line", (1, 2)) is Severity.INFO
    assert looked(tmp_path, monkeypatch, 3, "line", (1, 1)) is Severity.FAIL
    assert looked(tmp_path, monkeypatch, 2, "line", (1, 2)) is Severity.INFO  # it waits for the next one


def test_what_no_for_goes_over_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert looked(tmp_path, monkeypatch, 3, "found", (1, 2)) is Severity.FAIL
    assert looked(tmp_path, monkeypatch, 5, "line", (1, 2)) is Severity.FAIL
