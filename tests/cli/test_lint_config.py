"""`[tool.ddpdoctor.lint]`, comments and baselines: what `lint` leaves out, and what it says of a wrong configuration."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ddpdoctor import cli
from tests.training_programs import GOOD

SICK = GOOD.replace("set_device(local_rank)", "set_device(rank)").replace("        sampler.set_epoch(epoch)\n", "")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text(SICK)
    (tmp_path / "src" / "old").mkdir()
    (tmp_path / "src" / "old" / "train.py").write_text(SICK)
    (tmp_path / "src" / "old" / "job.sh").write_text("export CUDA_LAUNCH_BLOCKING=1\ntorchrun train.py\n")
    return tmp_path


def found(project: Path, capfd: pytest.CaptureFixture[str], *options: str) -> list[str]:
    """The code and file of each finding."""
    cli.run(["lint", str(project / "src"), "--format", "json", *options])
    findings = json.loads(capfd.readouterr().out)["findings"]
    names = [(each["code"], Path(each["where"][0]["file"])) for each in findings]
    return sorted(f"{code} {file.relative_to(project / 'src')}" for code, file in names)


ALL = ["DDP711 old/train.py", "DDP711 train.py", "DDP720 old/train.py", "DDP720 train.py", "DDP760 old/job.sh"]


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ("", ALL),
        ('select = ["DDP711"]', ["DDP711 old/train.py", "DDP711 train.py"]),
        ('ignore = ["DDP72", "debug-setting-in-script"]', ["DDP711 old/train.py", "DDP711 train.py"]),
        ('exclude = ["src/old"]', ["DDP711 train.py", "DDP720 train.py"]),
        ('exclude = ["*.sh", "train.py"]', []),
        (
            'per-file-ignores = {"src/old/*" = ["DDP7"], "train.py" = ["DDP711"]}',
            ["DDP720 train.py"],
        ),
    ],
)
def test_the_table_selects_ignores_and_excludes(
    table: str, expected: list[str], project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (project / "pyproject.toml").write_text(f"[tool.ddpdoctor.lint]\n{table}\n")
    assert found(project, capfd) == expected


def test_options_replace_the_table(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (project / "pyproject.toml").write_text('[tool.ddpdoctor.lint]\nselect = ["DDP711"]\n')
    assert found(project, capfd, "--select", "DDP76") == ["DDP760 old/job.sh"]


def test_the_table_of_the_folder_that_one_is_in_is_read_the_same(
    project: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (project / "pyproject.toml").write_text(
        '[tool.ddpdoctor.lint]\nexclude = ["src/old"]\nignore = ["DDP711"]\nbaseline = "lint.json"\n'
        'per-file-ignores = {"x.py" = ["DDP711"]}\n'
    )
    assert cli.run(["lint", str(project / "src"), "--write-baseline", str(project / "lint.json")]) == 0
    capfd.readouterr()
    monkeypatch.chdir(project / "src")
    assert found(project, capfd) == []
    (project / "lint.json").write_text('{"schema": "ddpdoctor.lint-baseline/1", "findings": []}')
    assert found(project, capfd) == ["DDP720 train.py"]


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ("selekt = []", "has no key selekt"),
        ('select = "DDP711"', "select is 'DDP711', not a list of strings"),
        ('select = ["DDP999"]', "DDP999"),
        ("per-file-ignores = []", "per-file-ignores is not a table"),
        ("select = [", "cannot be read"),
    ],
)
def test_a_wrong_table_is_a_usage_error(
    table: str, says: str, project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (project / "pyproject.toml").write_text(f"[tool.ddpdoctor.lint]\n{table}\n")
    assert cli.run(["lint", str(project / "src")]) == 2
    assert says in capfd.readouterr().err


def test_a_baseline_holds_when_lines_move_and_ends_with_the_line(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file, code = project / "lint.json", project / "src" / "train.py"
    assert cli.run(["lint", str(project / "src"), "--write-baseline", str(file)]) == 0
    assert capfd.readouterr().out == f"5 findings written to {file}\n"

    code.write_text("# a new line\n\n\n" + SICK)
    assert found(project, capfd, "--baseline", str(file)) == []

    code.write_text(SICK.replace("set_device(rank)", "set_device(rank + 0 or rank)").replace("range(10)", "range(11)"))
    assert cli.run(["lint", str(project / "src"), "--baseline", str(file)]) in {0, 1}
    assert "found no more: write it again" in capfd.readouterr().out

    code.write_text(SICK + "\n\ndef other(rank):\n    torch.cuda.set_device(int(os.environ['RANK']))\n\n\nother(0)\n")
    assert found(project, capfd, "--baseline", str(file)) == ["DDP720 train.py"]


@pytest.mark.parametrize("content", ["", "[]", '{"schema": "x", "findings": []}'])
def test_what_is_no_baseline_is_refused(content: str, project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (project / "lint.json").write_text(content)
    assert cli.run(["lint", str(project / "src"), "--baseline", str(project / "lint.json")]) == 2
    assert "is no baseline file" in capfd.readouterr().err


def test_a_comment_silences_a_finding_of_a_script(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    script = project / "src" / "old" / "job.sh"
    script.write_text("export CUDA_LAUNCH_BLOCKING=1  # ddpdoctor: ignore[DDP760] until Friday\ntorchrun train.py\n")
    assert found(project, capfd, "--select", "DDP760") == []
    script.write_text("# ddpdoctor: ignore[DDP760]\ntorchrun train.py\n")
    cli.run(["lint", str(script)])
    assert f"note: {script}:1: `ddpdoctor: ignore[DDP760]` silences nothing" in capfd.readouterr().out
