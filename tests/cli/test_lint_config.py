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


@pytest.mark.parametrize(
    "pattern",
    ["./src/old", "src/old/", "**/old", "**/src/old", "src/**/old/*", "src/**/old/**/*.*", "{root}/src/old", "old"],
)
def test_patterns_as_people_write_them(pattern: str, project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pattern = pattern.format(root=project)
    (project / "pyproject.toml").write_text(f'[tool.ddpdoctor.lint]\nexclude = ["{pattern}"]\n')
    assert found(project, capfd) == ["DDP711 train.py", "DDP720 train.py"]
    (project / "pyproject.toml").write_text(f'[tool.ddpdoctor.lint]\nper-file-ignores = {{"{pattern}" = ["DDP7"]}}\n')
    assert found(project, capfd) == ["DDP711 train.py", "DDP720 train.py"]


def test_a_folder_that_is_named_is_read_though_it_is_excluded(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (project / "pyproject.toml").write_text('[tool.ddpdoctor.lint]\nexclude = ["src/old", "*.sh"]\n')
    cli.run(["lint", str(project / "src" / "old"), "--format", "concise"])
    assert {line.split()[1] for line in capfd.readouterr().out.splitlines()} == {"DDP711", "DDP720"}
    assert cli.run(["lint", str(project / "src" / "old"), "--force-exclude"]) == 0


def test_where_all_is_excluded_that_is_said(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (project / "pyproject.toml").write_text('[tool.ddpdoctor.lint]\nexclude = ["src/*"]\n')
    assert cli.run(["lint", str(project / "src")]) == 3
    assert f"3 files are excluded by {project / 'pyproject.toml'}" in capfd.readouterr().out


def test_nothing_is_shown_of_an_excluded_file_that_others_import(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    device = "import os\nimport torch\n\ndef setup():\n    torch.cuda.set_device(int(os.environ['RANK']))\n"
    (project / "src" / "old" / "device.py").write_text(device)
    (project / "src" / "train.py").write_text(
        SICK.replace("import os\n", "import os\nfrom old.device import setup\n").replace(
            "def main():\n", "def main():\n    setup()\n"
        )
    )
    cli.run(["lint", str(project / "src" / "train.py"), "--format", "concise"])
    assert "old/device.py:5" in capfd.readouterr().out
    (project / "pyproject.toml").write_text('[tool.ddpdoctor.lint]\nexclude = ["src/old"]\n')
    cli.run(["lint", str(project / "src" / "train.py"), "--format", "concise"])
    assert "device.py" not in capfd.readouterr().out


def test_a_path_with_dots_in_it_is_the_same_path(
    project: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (project / "pyproject.toml").write_text('[tool.ddpdoctor.lint]\nexclude = ["src/old"]\nbaseline = "lint.json"\n')
    assert cli.run(["lint", str(project / "src"), "--write-baseline", str(project / "lint.json")]) == 0
    capfd.readouterr()
    monkeypatch.chdir(project / "src" / "old")
    assert cli.run(["lint", "../../src"]) == 0
    assert "2 findings are in the baseline" in capfd.readouterr().out


def test_a_baseline_follows_a_file_that_is_renamed_but_not_one_that_is_copied(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file, code = project / "lint.json", project / "src" / "train.py"
    assert cli.run(["lint", str(project / "src"), "--write-baseline", str(file)]) == 0
    capfd.readouterr()
    code.rename(project / "src" / "main.py")
    assert found(project, capfd, "--baseline", str(file)) == []
    code.write_text(SICK)
    assert found(project, capfd, "--baseline", str(file)) == ["DDP711 main.py", "DDP720 main.py"]


def test_a_baseline_holds_when_cells_move(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file, book = project / "lint.json", project / "src" / "train.ipynb"
    cell, text = {"cell_type": "code", "source": SICK}, {"cell_type": "markdown", "source": "# Train"}
    book.write_text(json.dumps({"cells": [cell]}))
    assert cli.run(["lint", str(book), "--write-baseline", str(file)]) == 0
    book.write_text(json.dumps({"cells": [text, text, {**cell, "source": "# new\n" + SICK}]}))
    capfd.readouterr()
    assert cli.run(["lint", str(book), "--baseline", str(file)]) == 0
    assert "2 findings are in the baseline" in capfd.readouterr().out
    other = SICK.replace("set_device(rank)", 'set_device(int(os.environ["RANK"]))')
    book.write_text(json.dumps({"cells": [{**cell, "source": other}]}))
    assert cli.run(["lint", str(book), "--baseline", str(file)]) == 1


def test_a_baseline_of_an_earlier_version_holds_for_cells(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """It has the place of the cell, and the message in place of the line; each of its entries holds once."""
    file, book = project / "lint.json", project / "src" / "train.ipynb"
    cell, text = {"cell_type": "code", "source": SICK}, {"cell_type": "markdown", "source": "# Train"}
    book.write_text(json.dumps({"cells": [text, cell]}))
    cli.run(["lint", str(book), "--format", "json"])
    findings = json.loads(capfd.readouterr().out)["findings"]
    entries = [
        {"code": each["code"], "file": "src/train.ipynb:cell 2", "text": each["message"]}
        for each in findings
        if each["where"]
    ]
    assert len(entries) == 2
    file.write_text(json.dumps({"schema": "ddpdoctor.lint-baseline/1", "findings": entries}))
    assert cli.run(["lint", str(book), "--baseline", str(file)]) == 0
    assert "2 findings are in the baseline" in capfd.readouterr().out
    file.write_text(json.dumps({"schema": "ddpdoctor.lint-baseline/1", "findings": entries[:1]}))
    cli.run(["lint", str(book), "--baseline", str(file)])
    assert "1 finding is in the baseline" in capfd.readouterr().out


def test_a_form_feed_ends_no_line_of_a_baseline(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file, code = project / "lint.json", project / "src" / "train.py"
    code.write_text(f"# \x0c \u2028\n{SICK}")
    assert cli.run(["lint", str(code), "--write-baseline", str(file)]) == 0
    assert "torch.cuda.set_device(rank)" in file.read_text()
    code.write_text(SICK)
    assert cli.run(["lint", str(code), "--baseline", str(file)]) == 0


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
