"""A run-time finding shows what `lint` says of its line; and `smoke --path` has both in one report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ddpdoctor import cli
from ddpdoctor.catalogue import all_rules
from ddpdoctor.cli import smoke
from ddpdoctor.evidence import Evidence
from ddpdoctor.model import Report, Rule, Where
from ddpdoctor.workflows.lint_hints import with_lint
from tests.training_programs import GOOD

RULES = {rule.code: rule for rule in all_rules()}
EXTRA = GOOD.replace("print(epoch, accuracy)", "dist.barrier()")
LINE = 1 + EXTRA.splitlines().index("            dist.barrier()")


def report(rule: Rule, file: Path, line: int) -> Report:
    finding = rule.finding("it hangs", ranks=(0,), where=[Where(rank=0, file=str(file), line=line, function="main")])
    return Report(outcomes=(), findings=(finding,))


@pytest.mark.parametrize(
    ("code", "line", "expected"),
    [
        ("DDP305", LINE, True),  # the same line
        ("DDP305", 1, True),  # another line of the file, and lint says that it leads here
        ("DDP404", LINE, True),
        ("DDP404", 1, False),
        ("DDP601", LINE, False),  # not about a line of code
    ],
)
def test_the_same_line_or_the_cause_in_the_same_file_is_shown(
    code: str, line: int, expected: bool, tmp_path: Path
) -> None:
    file = tmp_path / "train.py"
    file.write_text(EXTRA)
    (found,) = with_lint(report(RULES[code], file, line)).findings
    hint = f"lint would have said this: DDP730 collective-under-rank-test, {file}:{LINE}"
    assert found.details == ((hint,) if expected else ())


@pytest.mark.parametrize("elsewhere", [False, True])
def test_an_error_that_a_rank_raised_at_another_line_may_have_any_cause(elsewhere: bool, tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text(GOOD.replace("sampler=sampler", "sampler=sampler, shuffle=True"))
    line = 1 + next(n for n, text in enumerate(file.read_text().splitlines()) if "shuffle=True)" in text)
    (found,) = with_lint(report(RULES["DDP401"], file, 1 if elsewhere else line)).findings
    hint = f"lint would have said this: DDP713 {RULES['DDP713'].name}, {file}:{line}"
    assert found.details == (() if elsewhere else (hint,))


@pytest.mark.parametrize(
    "text", [GOOD, None, "print 'x'\n", EXTRA.replace("dist.barrier()\n", "dist.barrier()  # ddpdoctor: ignore\n")]
)
def test_without_a_finding_of_lint_the_report_stays_as_it_is(text: str | None, tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    if text is not None:
        file.write_text(text)
    before = report(RULES["DDP305"], file, LINE)
    assert with_lint(before) == before


def test_a_file_that_takes_long_is_not_linted_for_a_hint(tmp_path: Path) -> None:
    """A verdict does not wait for generated code."""
    file = tmp_path / "train.py"
    file.write_text(EXTRA)
    assert with_lint(report(RULES["DDP305"], file, LINE)).findings[0].details
    file.write_text(EXTRA + "# generated\n" * 30_000)
    before = report(RULES["DDP305"], file, LINE)
    assert with_lint(before) == before


def test_smoke_lints_a_repository_beside_its_own_stages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.py").write_text(EXTRA)
    monkeypatch.setattr(smoke, "STAGES", {"env": lambda _nproc: smoke.Stage(evidence=Evidence(), outcome="read")})
    assert cli.run(["smoke", "--path", str(tmp_path), "--format", "json"]) == 1
    document = json.loads(capfd.readouterr().out)
    assert [finding["code"] for finding in document["findings"]] == ["DDP730"]
    ran = {outcome["code"] for outcome in document["outcomes"] if outcome["outcome"] == "ran"}
    assert {"DDP711", "DDP730"} <= ran


def test_smoke_refuses_a_path_that_is_not_there(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["smoke", "--path", str(tmp_path / "src")]) == 2
    assert "does not exist" in capfd.readouterr().err
