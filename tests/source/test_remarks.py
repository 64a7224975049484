"""Which codes a comment silences, as people write it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ddpdoctor.source.remarks import remarks_in
from ddpdoctor.source.statement_lines import comments_of_manifest, comments_of_python, comments_of_shell
from ddpdoctor.workflows.lint import LintOptions, lint_paths
from tests.training_programs import GOOD

SICK = GOOD.replace("set_device(local_rank)", "set_device(rank)")
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
        ("# ddpdoctor: ignore DDP711, DDP755 one pass only", ("DDP711", "DDP755")),
        ("# noqa: E501  # DDPDoctor: Ignore: DDP711", ("DDP711",)),
        ("# ddpdoctor: ignore  [DDP711]", ("DDP711",)),
        ("# ddpdoctor: ignore  (DDP711, DDP755)", ("DDP711", "DDP755")),
        ("# ddpdoctor: ignore: [set-epoch-missing]", ("set-epoch-missing",)),
        ("# ddpdoctor: ignore = DDP711", ("DDP711",)),
        ("# ddpdoctor: ignore  :  DDP711 DDP755", ("DDP711", "DDP755")),
        ("# ddpdoctor: ignore[DDP711 - one pass only]", ("DDP711",)),
        ("# ddpdoctor: ignore[DDP711, set-epoch-missing : one pass only]", ("DDP711", "set-epoch-missing")),
        ("# ddpdoctor: ignore[DDP711: one pass only]", ("DDP711",)),
        ("# ddpdoctor: ignore[DDP711 & DDP755]", ("DDP711", "DDP755")),
        ("# ddpdoctor: ignore[711]", ("711",)),
        ("# ddpdoctor: ignore - DDP711 is about one pass", ()),
        ("# ddpdoctor: ignore: one pass only", ()),
    ],
)
def test_the_codes_of_a_comment(comment: str, codes: tuple[str, ...]) -> None:
    (remark,) = remarks_in(f"x = 1  {comment}\n", lambda line: ("train.py", line), comments_of_python)
    assert remark.codes == codes


@pytest.mark.parametrize("code", ["DDP711", "ddp711", "set-epoch-missing"])
def test_a_comment_silences_by_code_and_by_name(tmp_path: Path, code: str) -> None:
    assert _lint(tmp_path, f"[{code}]") == []


@pytest.mark.parametrize("other", ["[ddp755]", "(DDP755)", "[prints-on-every-rank]"])
def test_a_comment_for_another_rule_silences_nothing(tmp_path: Path, other: str) -> None:
    assert _lint(tmp_path, other) == ["DDP711"]


@pytest.mark.parametrize("other", ["# ddpdoctor: ignore-file", "# ddpdoctor: ignores[DDP711]", "# ignore[DDP711]"])
def test_what_is_no_such_comment(other: str) -> None:
    assert not [*remarks_in(f"x = 1  {other}\n", lambda line: ("train.py", line), comments_of_python)]


_I = "# ddpdoctor: ignore[DDP711]"


@pytest.mark.parametrize(
    ("text", "about"),
    [
        (f"f(\n    1,\n    2,\n)  {_I}\n", (1, 4)),
        (f"f(  {_I}\n    1,\n    2,\n)\n", (1, 4)),
        (f"f(\n    1,  {_I}\n    2,\n)\n", (1, 4)),
        (f"f(\n    {_I}\n    1,\n    2,\n)\n", (1, 5)),
        (f"{_I}\nf(\n    1,\n)\n", (2, 4)),
        (f"{_I}\n# the reason\n\nf(1)\n", (4, 4)),
        (f'f("""\na\nb\n""")  {_I}\n', (1, 4)),
        (f"x = \\\n    1  {_I}\n", (1, 2)),
        (f"@a(\n    1)\n@b  {_I}\ndef f(\n    x,\n):\n    pass\n", (1, 6)),
        (f"@a\n{_I}\nclass C:\n    pass\n", (1, 3)),
        (f"{_I}\n@a\nasync def f(): # what\n    pass\n", (2, 3)),
        (f"if a and (\n    b\n):  {_I}\n    f(\n        1)\n", (1, 3)),
        (f"if a:\n    {_I}\n    f(1)\n", (3, 3)),
        (f"if a: f(\n    1)  {_I}\n", (1, 2)),
        (f"f(1); g(\n    2)  {_I}\n", (1, 2)),
        (f"f(1)\n    {_I}\n", (2, 2)),
        (f"with a as b, \\\n     c as d:  {_I}\n    pass\n", (1, 2)),
    ],
)
def test_the_statement_that_a_comment_is_about(text: str, about: tuple[int, int]) -> None:
    (remark,) = remarks_in(text, lambda line: ("train.py", line), comments_of_python)
    assert remark.about == about


def test_a_text_that_looks_like_a_comment_is_none() -> None:
    text = f'"""\n{_I}\n"""\nx = "{_I}"\n'
    assert not [*remarks_in(text, lambda line: ("train.py", line), comments_of_python)]


@pytest.mark.parametrize(
    ("text", "about"),
    [
        (f"torchrun \\\n  --nnodes 2 \\\n  train.py  {_I}\n", (1, 3)),
        (f"{_I}\n# the reason\ntorchrun \\\n  train.py\n", (3, 4)),
        (f"ARGS=(\n  --a  {_I}\n  --b\n)\n", (1, 4)),
        (f"srun bash -c '\n  export A=1\n  torchrun train.py\n'  {_I}\n", (1, 4)),
        (f"srun bash -c '\n  export A=1  {_I}\n  torchrun train.py\n'\n", (2, 2)),
        (f"cat > run.sh <<EOF\nexport A=1\n{_I}\ntorchrun \\\n  train.py\nEOF\n", (4, 5)),
        (f"torchrun train.py |\n  tee log  {_I}\n", (1, 2)),
        (f"if true; then\n  torchrun a.py  {_I}\n  torchrun b.py\nfi\n", (2, 2)),
        (f"run() {{\n  {_I}\n  torchrun a.py\n}}\n", (3, 3)),
        (f"export A=1\n{_I}\n", (2, 2)),
    ],
)
def test_the_command_that_a_comment_of_a_script_is_about(text: str, about: tuple[int, int]) -> None:
    (remark,) = remarks_in(text, lambda line: ("job.sh", line), comments_of_shell)
    assert remark.about == about


@pytest.mark.parametrize(
    ("text", "about"),
    [
        (f"command:\n  - torchrun\n  - --nnodes=2  {_I}\n  - train.py\nimage: x\n", (1, 4)),
        (f'args: ["torchrun",\n  "train.py"]  {_I}\nimage: x\n', (1, 2)),
        (f"env:\n  - name: A\n    value: x  {_I}\n  - name: B\n    value: y\n", (2, 3)),
        (f"{_I}\nspec:\n  backoffLimit: 3\n", (2, 2)),
        (f"services:\n  train:  {_I}\n    image: x\n    shm_size: 1g\n", (2, 3)),
        (f"command:  {_I}\n  - torchrun\n  - train.py\nimage: x\n", (1, 3)),
        (f"args:\n  - |\n    export A=1  {_I}\n    torchrun train.py\n", (3, 3)),
    ],
)
def test_the_part_of_a_manifest_that_a_comment_is_about(text: str, about: tuple[int, int]) -> None:
    (remark,) = remarks_in(text, lambda line: ("job.yaml", line), comments_of_manifest)
    assert remark.about == about


def test_a_comment_at_the_end_of_a_cell_is_not_about_the_next_one(tmp_path: Path) -> None:
    cells = [
        "x = 1\n# ddpdoctor: ignore\n",
        SICK.replace("    torch.cuda", "    # ddpdoctor: ignore[DDP720]\n    torch.cuda"),
    ]
    file = tmp_path / "train.ipynb"
    file.write_text(json.dumps({"cells": [{"cell_type": "code", "source": cell} for cell in cells]}))
    report = lint_paths([file]).report
    assert not [finding for finding in report.findings if finding.code == "DDP720"]
    assert report.notes == (f"{file}:cell 1:2: `ddpdoctor: ignore` silences nothing",)


def test_a_comment_in_a_block_of_markdown(tmp_path: Path) -> None:
    file = tmp_path / "README.md"
    file.write_text(f"# Train\n\n```python\n{SICK}```\n")
    assert [finding.code for finding in lint_paths([file]).report.findings] == ["DDP720"]
    call = "torch.cuda.set_device(\n        rank\n    )  # ddpdoctor: ignore[DDP720]"
    file.write_text(f"# Train\n\n```python\n{SICK.replace('torch.cuda.set_device(rank)', call)}```\n")
    assert not lint_paths([file]).report.findings


@pytest.mark.parametrize(
    ("codes", "note"),
    [
        ("[DDP7111]", "`ddpdoctor: ignore[DDP7111]`: no finding has the code or name DDP7111; did you mean DDP711?"),
        ("[set-epoch-mising]", "no finding has the code or name set-epoch-mising; did you mean set-epoch-missing?"),
        ("[set_epoch]", "no finding has the code or name set_epoch"),
        ("[DDP711, DDP755]", "`ddpdoctor: ignore[DDP711, DDP755]` silences nothing of DDP755"),
        ("[DDP755]", "`ddpdoctor: ignore[DDP755]` silences nothing"),
    ],
)
def test_what_a_comment_does_not_silence_is_noted(tmp_path: Path, codes: str, note: str) -> None:
    text = GOOD.replace("        sampler.set_epoch(epoch)\n", "")
    file = tmp_path / "train.py"
    file.write_text(text.replace(_SAMPLER, f"    # ddpdoctor: ignore{codes}\n{_SAMPLER}"))
    (said,) = lint_paths([file]).report.notes
    assert said.startswith(f"{file}:35: ")
    assert note in said


def test_of_the_rules_that_did_not_look_nothing_is_said(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text(GOOD.replace(_SAMPLER, f"{_SAMPLER}  # ddpdoctor: ignore[DDP711, DDP755]"))
    (said,) = lint_paths([file], LintOptions(ignore=["DDP755"])).report.notes
    assert said.endswith("silences nothing of DDP711")


def _lint(folder: Path, codes: str) -> list[str]:
    text = GOOD.replace("        sampler.set_epoch(epoch)\n", "")
    file = folder / "train.py"
    file.write_text(text.replace(_SAMPLER, f"{_SAMPLER}  # ddpdoctor: ignore{codes}"))
    return [finding.code for finding in lint_paths([file]).report.findings]
