"""Options are set by variables and by pyproject.toml, and `ddpdoctor config` says which value comes from where."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ddpdoctor import cli
from ddpdoctor.cli.command_line import variables_of
from ddpdoctor.cli.project_file import FOR_PEOPLE

NOBODY = 4_000_000_000  # no host has a user of this number
FILE = """
[tool.ddpdoctor]
ignore = "DDP209"

[tool.ddpdoctor.watch]
stall-after = 120
quiet = true
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pyproject.toml").write_text(FILE)
    (tmp_path / "runs").mkdir()
    monkeypatch.chdir(tmp_path / "runs")
    return tmp_path / "pyproject.toml"


def config(capfd: pytest.CaptureFixture[str], *arguments: str) -> dict[tuple[str, str], Any]:
    assert cli.run(["config", *arguments, "--format", "json"]) == 0
    return {
        (row["command"], row["option"]): (row["value"], row["source"]) for row in json.loads(capfd.readouterr().out)
    }


def test_the_file_of_the_project_is_found_from_a_folder_below(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    rows = config(capfd)
    assert rows["watch", "--stall-after"] == (120, f"[tool.ddpdoctor.watch] in {project}")
    assert rows["watch", "--ignore"] == (["DDP209"], f"[tool.ddpdoctor] in {project}")
    assert rows["port", "--ignore"] == (["DDP209"], f"[tool.ddpdoctor] in {project}")
    assert ("port", "--format") not in rows


def test_a_variable_comes_before_the_file_and_that_of_the_command_before_that_of_all(
    project: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DDPDOCTOR_STALL_AFTER", "60")
    assert config(capfd, "watch")["watch", "--stall-after"] == ("60", "DDPDOCTOR_STALL_AFTER")
    monkeypatch.setenv("DDPDOCTOR_WATCH_STALL_AFTER", "90")
    assert config(capfd, "watch")["watch", "--stall-after"] == ("90", "DDPDOCTOR_WATCH_STALL_AFTER")
    assert config(capfd, "watch")["watch", "--kill-on-hang"] == (False, "default")


def test_every_option_has_the_variables_that_config_names() -> None:
    """Those of `--format`, `-f` are DDPDOCTOR_PORT_FORMAT and DDPDOCTOR_FORMAT, and not DDPDOCTOR_PORT_F."""
    from typer.main import get_command

    group: Any = get_command(cli._app([]))
    seen = 0
    for name, command in group.commands.items():
        for parameter in command.params:
            if parameter.param_type_name == "option" and parameter.name not in {"help", "ctx"}:
                assert tuple(parameter.envvar) == variables_of(name, max(parameter.opts, key=len)), parameter.opts
                seen += 1
    assert seen > 100


def test_a_variable_sets_an_option_that_has_a_short_name(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DDPDOCTOR_FORMAT", "json")
    assert cli.run(["checks"]) == 0
    assert json.loads(capfd.readouterr().out)
    monkeypatch.setenv("DDPDOCTOR_CHECKS_FORMAT", "no such format")
    assert cli.run(["checks"]) == 2


def test_a_command_runs_with_what_is_set_and_the_command_line_comes_first(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    project.write_text('[tool.ddpdoctor]\nformat = "json"\nselect = ["DDP703"]\n')
    Path("job.sh").write_text("python -m torch.distributed.launch train.py\n")
    cli.run(["lint", "job.sh"])
    assert [found["code"] for found in json.loads(capfd.readouterr().out)["findings"]] == ["DDP703"]
    cli.run(["lint", "job.sh", "--format", "text"])
    assert "DDP703" in capfd.readouterr().out.splitlines()[0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[tool.ddpdoctor.watch]\nstal-after = 1\n", "there is no `stal-after`\n  did you mean `stall-after`?"),
        ("[tool.ddpdoctor]\nno-such = 1\n", "there is no `no-such`"),
        ("[tool.ddpdoctor.wach]\nquiet = true\n", "there is no `wach`\n  did you mean `watch`?"),
        ("[tool.ddpdoctor.watch]\nstall-after = 'x'\n", "'x' is not a number"),
        ("[tool.ddpdoctor\n", "cannot be read"),
    ],
)
def test_a_mistake_in_the_file_is_told(text: str, said: str, project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    project.write_text(text)
    arguments = ["watch", "--", "true"] if "number" in said else ["config"]
    assert cli.run(arguments) == 2
    assert said in capfd.readouterr().err


def test_a_variable_with_a_value_that_the_option_does_not_take_is_shown_with_the_reason(
    project: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DDPDOCTOR_WATCH_STALL_AFTER", "soon")
    monkeypatch.setenv("DDPDOCTOR_WATCH_IGNORE", "DDP209")
    assert cli.run(["config", "watch"]) == 2
    lines = {line.split()[1]: line for line in capfd.readouterr().out.splitlines()}
    refused = "DDPDOCTOR_WATCH_STALL_AFTER  error: invalid value for '--stall-after': 'soon' is not a number"
    assert refused in lines["--stall-after"]
    assert "error" not in lines["--ignore"]


@pytest.mark.parametrize(
    ("variable", "value", "error"),
    [
        ("DDPDOCTOR_IGNORE", "DDP305,DDP399", "'DDP399' is not a code or name of a finding: did you mean DDP319? "),
        (
            "DDPDOCTOR_ENV_SELECT",
            "rank-rasied",
            "'rank-rasied' is not a code or name of a finding: did you mean rank-raised? ",
        ),
    ],
)
def test_a_code_that_no_finding_has_is_an_error_with_the_nearest_one(
    variable: str, value: str, error: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DDPDOCTOR_SELECT", "ddp1,rank-raised")
    monkeypatch.setenv(variable, value)
    assert cli.run(["config", "env"]) == 2
    (line,) = (line for line in capfd.readouterr().out.splitlines() if "error" in line)
    assert f"{variable}  error: {error}`ddpdoctor checks` lists them all" in line
    assert cli.run(["config", "explain"]) == 0


def test_a_wrong_code_in_the_file_of_the_project_is_an_error_too(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    project.write_text('[tool.ddpdoctor]\nignore = ["DDP305", "DDP399"]\n')
    assert cli.run(["config", "env"]) == 2
    shown = capfd.readouterr().out
    assert f"--ignore    DDP305,DDP399  [tool.ddpdoctor] in {project}  error: 'DDP399' is not a code" in shown


def test_nothing_set_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.run(["config"]) == 0
    assert capfd.readouterr().out.startswith("every option has its default")


def test_a_working_directory_that_was_removed_has_no_project_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert cli.run(["config", "port"]) == 0
    shown = capfd.readouterr().out
    assert "--fail-on  fail     default" in shown
    assert "--output   not set  default" in shown
    assert "--verbose  false    default" in shown


@pytest.mark.parametrize(
    ("table", "key", "value"),
    [
        ("watch", "on-verdict", "touch PWNED"),
        ("", "on-verdict", "touch PWNED"),
        ("watch", "output", "../x"),
        ("", "case", "/x"),
    ],
)
def test_a_project_file_runs_nothing_and_writes_nothing(
    table: str, key: str, value: str, project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A folder that belongs to somebody else must not decide what the command runs or where it writes."""
    project.write_text(f'[tool.ddpdoctor{"." if table else ""}{table}]\n{key} = "{value}"\n')
    assert cli.run(["watch", "--", "false"]) == 2
    said = " ".join(capfd.readouterr().err.split())
    assert f"sets `{key}` for `watch`" in said
    assert "a project file cannot do that" in said
    assert f"DDPDOCTOR_WATCH_{key.upper().replace('-', '_')}" in said
    assert not [*project.parent.rglob("PWNED")]


def test_every_option_with_a_path_that_is_written_is_refused_in_a_project_file() -> None:
    from typer.main import get_command

    read = {"baseline", "compare", "path"}
    group: Any = get_command(cli._app([]))
    paths = {
        option.removeprefix("--")
        for command in group.commands.values()
        for parameter in command.params
        for option in parameter.opts
        if parameter.param_type_name == "option" and "Path" in type(parameter.type).__name__ and option.startswith("--")
    }
    assert "output" in paths
    assert paths - read <= {*FOR_PEOPLE}


@pytest.fixture
def strangers_file(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project's file belongs to a user who owns neither the folder nor this process."""
    found = project.stat()
    stranger = os.stat_result((*found[:4], NOBODY, *found[5:10]))
    stat = Path.stat
    monkeypatch.setattr(Path, "stat", lambda path, **named: stranger if path == project else stat(path, **named))
    return project


def test_a_file_of_another_user_above_the_working_directory_is_not_used(
    strangers_file: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """As in /tmp, where anybody may put one: it would decide what root is told."""
    assert ("watch", "--stall-after") not in config(capfd)
    assert cli.run(["config"]) == 0
    shown = capfd.readouterr()
    assert shown.out.startswith(
        f"{strangers_file} belongs to user {NOBODY} and is not used\nevery option has its default"
    )
    assert shown.err.count(f"{strangers_file} belongs to user {NOBODY} and is not used") == 1
    assert "copy it to a file of your own" in shown.err


def test_a_file_of_another_user_without_a_table_of_ours_is_no_matter(
    strangers_file: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    strangers_file.write_text("[tool.black]\n")
    assert cli.run(["config"]) == 0
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("name", ["job.sh", "absent/job.sh", "."])
def test_lint_says_once_that_it_does_not_use_the_file_of_another_user(
    name: str, strangers_file: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in (strangers_file.parent, Path("/")):
        monkeypatch.chdir(folder)
        cli.run(["lint", str(strangers_file.parent / name)])
        assert capfd.readouterr().err.count("and is not used") == 1


def test_whose_script_is_linted_does_not_decide_whose_project_file_is_used(
    strangers_file: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: a script of a stranger in /tmp let the stranger's project file beside it speak, and a missing one none."""
    script = strangers_file.parent / "job.sh"
    script.write_text("python -m torch.distributed.launch train.py\n")
    strangers_file.write_text('[tool.ddpdoctor.lint]\nignore = ["DDP703"]\n')
    stat, stranger = Path.stat, strangers_file.stat()
    monkeypatch.setattr(
        Path,
        "stat",
        lambda path, **named: (
            os.stat_result((stat(path)[0], *stranger[1:10])) if path == script else stat(path, **named)
        ),
    )
    cli.run(["lint", str(script)])
    assert "DDP703" in capfd.readouterr().out


@pytest.mark.parametrize("value", ["[[1]]", "{a = 1}", "1979-05-27"])
def test_a_value_that_no_option_can_have_is_refused(
    project: Path, capfd: pytest.CaptureFixture[str], value: str
) -> None:
    project.write_text(f"[tool.ddpdoctor.diagnose]\nselect = {value}\n")
    assert cli.run(["diagnose", "x"]) == 2
    assert "`select` of `diagnose` is" in capfd.readouterr().err
