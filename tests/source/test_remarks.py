"""Which codes a comment silences, as people write it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpdoctor.source.remarks import remarks_in
from ddpdoctor.workflows.lint import lint_paths
from tests.training_programs import GOOD

_SAMPLER = "    sampler = DistributedSampler(train_data)"


@pytest.mark.parametrize(
    ("comment", "codes"),
    [
        ("# ddpdoctor: ignore[DDP711]", ("DDP711",)),
        ("# ddpdoctor:ignore[ddp711, DDP755] one pass only", ("ddp711", "DDP755")),
        ("# ddpdoctor: ignore(DDP711)", ("DDP711",)),
        ("# ddpdoctor: ignore [set-epoch-missing]", ("set-epoch-missing",)),
        ("# ddpdoctor: ignore[DDP711", ("DDP711",)),
        ("# ddpdoctor: ignore", ()),
        ("# ddpdoctor: ignore (one pass only)", ()),
    ],
)
def test_the_codes_of_a_comment(comment: str, codes: tuple[str, ...]) -> None:
    (remark,) = remarks_in(f"x = 1  {comment}\n", lambda line: ("train.py", line))
    assert remark.codes == codes


@pytest.mark.parametrize("code", ["DDP711", "ddp711", "set-epoch-missing"])
def test_a_comment_silences_by_code_and_by_name(tmp_path: Path, code: str) -> None:
    assert _lint(tmp_path, f"[{code}]") == []


@pytest.mark.parametrize("other", ["[ddp755]", "(DDP755)", "[prints-on-every-rank]"])
def test_a_comment_for_another_rule_silences_nothing(tmp_path: Path, other: str) -> None:
    assert _lint(tmp_path, other) == ["DDP711"]


def _lint(folder: Path, codes: str) -> list[str]:
    text = GOOD.replace("        sampler.set_epoch(epoch)\n", "")
    file = folder / "train.py"
    file.write_text(text.replace(_SAMPLER, f"{_SAMPLER}  # ddpdoctor: ignore{codes}"))
    return [finding.code for finding in lint_paths([file]).report.findings]
