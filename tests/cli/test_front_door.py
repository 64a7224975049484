"""The command line as a stranger meets it: help, mistakes, exit codes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ddpdoctor import __version__, cli
from ddpdoctor.catalogue import all_rules
from ddpdoctor.cli import command_line
from ddpdoctor.errors import DdpdoctorError, UndecidedError, UsageError
from tests.waiting import PROGRAM_SECONDS


def ddpdoctor(*arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ddpdoctor", *arguments],
        capture_output=True,
        text=True,
        timeout=PROGRAM_SECONDS,
        check=False,
        env={**os.environ, **(env or {})},
    )


def test_version() -> None:
    ended = ddpdoctor("--version")
    assert (ended.returncode, ended.stdout) == (0, f"ddpdoctor {__version__}\n")


def test_every_command_explains_itself() -> None:
    ended = ddpdoctor("--help")
    assert ended.returncode == 0
    for command in cli.COMMANDS:
        name = command.replace("_", "-")
        assert f"  {name} " in ended.stdout, f"{name} is not in --help"
        assert ddpdoctor(name, "--help").returncode == 0


def test_a_terminal_of_60_columns_cuts_no_help_text(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    for command in ([], *([name.replace("_", "-")] for name in cli.COMMANDS)):
        assert cli.run([*command, "--help"]) == 0
        described = capfd.readouterr().out.partition("\n\n")[2]
        assert not [line for line in described.splitlines() if len(line) > 60 or re.search(r"\w\.\.\.$", line)]
        assert not re.search(r"\b(INTEGER|FLOAT|TEXT)( RANGE)?  ", described)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["explain", "ddp305x"], "did you mean DDP305?"),
        (["init", "foo"], "invalid value for 'LAUNCHER': 'foo' is not one of 'slurm'"),
        (["frobnicate"], "no such command 'frobnicate'"),
        (["explain"], "missing argument"),
        (["explain", "DDP999"], "'DDP999' is not a code or name of a finding\n  `ddpdoctor checks` lists them all"),
        (["checks", "--format", "yaml"], "'yaml' is not one of"),
        (["watch", "--", ""], "a command without a name cannot be started"),
        (["watch", "--", "no.py"], "`ddpdoctor watch -- torchrun --nproc-per-node N no.py`"),
        (["watch", "--", "/"], "/ cannot be started: Permission denied\n  give a program that may be run"),
    ],
)
def test_a_mistake_gets_a_sentence_and_exit_code_2(arguments: list[str], said: str) -> None:
    ended = ddpdoctor(*arguments)
    assert ended.returncode == 2, ended.stderr
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr
    assert ended.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["train", "--nproc", "2", "--deadline", "-1"], "invalid value for '--deadline'"),
        (["train", "--nproc", "2", "--inject", "DDP305", "--culprit", "-1"], "invalid value for '--culprit'"),
        (["train", "--nproc", "2", "--parity", "--scaling", "1,2"], "--parity and --scaling cannot be combined"),
        (["verify-sync", "--nproc", "2", "--deadline", "nan"], "invalid value for '--deadline'"),
        (["verify-sync", "--nproc", "2", "--stall-after", "0", "train.py"], "invalid value for '--stall-after'"),
        (["port"], "MASTER_PORT='abc' is not a port"),
        (["net", "--nnodes", "2", "--node-rank", "0", "--master-addr", "a"], "MASTER_PORT='abc' is not a port"),
        (["checks", "--output", "x"], "no such option"),
        (["lint", "job.sh", "--output", "."], "--output . is a directory\n  name a file: `--output report`"),
        (["watch", "--case", "job.sh", "--", "true"], "--case job.sh is a file\n  name a directory"),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else "",
)
def test_a_value_that_cannot_be_is_refused_before_anything_is_started(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "job.sh").write_text("torchrun --standalone train.py\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MASTER_PORT", "abc")
    assert cli.run(arguments) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.out == ""


def test_the_nearest_finding_is_suggested() -> None:
    rule = all_rules()[0]
    ended = ddpdoctor("explain", rule.name + "s")
    assert ended.returncode == 2
    assert f"did you mean {rule.name}?" in ended.stderr


def test_explain_takes_a_code_in_any_case_or_a_name() -> None:
    rule = all_rules()[0]
    pages = {ddpdoctor("explain", word).stdout for word in (rule.code, rule.code.lower(), rule.name)}
    assert len(pages) == 1
    assert pages.pop().startswith(f"{rule.code} {rule.name}\n")


def test_the_catalogue_for_people_and_machines() -> None:
    listed = json.loads(ddpdoctor("checks", "--format", "json").stdout)
    assert [entry["code"] for entry in listed] == [rule.code for rule in all_rules()]
    assert len(ddpdoctor("checks").stdout.splitlines()) == len(listed)


def test_a_reader_that_leaves_early_costs_neither_the_verdict_nor_the_case(tmp_path: Path) -> None:
    """`ddpdoctor lint ... | head -0` in a shell with `pipefail` ends as `ddpdoctor lint` does."""
    for script, code in (("torchrun train.py\n", 0), ("srun torchrun --standalone train.py\n", 1)):
        (tmp_path / "job.sbatch").write_text("#!/bin/bash\n#SBATCH --nodes 2\n" + script)
        unread, stdout = os.pipe()
        os.close(unread)
        ended = subprocess.run(
            [sys.executable, "-m", "ddpdoctor", "lint", "job.sbatch", "--case", "case.json"],
            stdout=stdout, stderr=subprocess.PIPE, cwd=tmp_path, text=True, timeout=PROGRAM_SECONDS, check=False,
        )  # fmt: skip
        os.close(stdout)
        assert (ended.returncode, ended.stderr) == (code, "")
        assert (tmp_path / "case.json").exists()
        (tmp_path / "case.json").unlink()


def test_a_working_directory_that_was_removed_is_no_bug_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert cli.run(["lint", "train.py"]) == 2
    assert capfd.readouterr().err.startswith("ddpdoctor: the working directory was removed\n")


def test_an_output_that_is_full_is_no_bug_of_ours() -> None:
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "ddpdoctor", "checks"],
            stdout=full, stderr=subprocess.PIPE, text=True, timeout=PROGRAM_SECONDS, check=False,
        )  # fmt: skip
    assert (ended.returncode, ended.stderr) == (
        4,
        "ddpdoctor: cannot write the output: No space left on device\n  free disk space there\n",
    )


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_commands_and_options(shell: str) -> None:
    """As the shell asks for it: the completion script that `--show-completion` prints sets these variables."""
    words, wanted = "ddpdoctor allreduce-bench --coll", "--collective"
    asks = {"bash": {"COMP_WORDS": words, "COMP_CWORD": "2"}, "zsh": {"_TYPER_COMPLETE_ARGS": words},
            "fish": {"_TYPER_COMPLETE_ARGS": words, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}}  # fmt: skip
    script = Path(sys.executable).with_name("ddpdoctor")
    ended = subprocess.run(
        [script], env={**os.environ, "_DDPDOCTOR_COMPLETE": f"complete_{shell}", **asks[shell]},
        capture_output=True, text=True, timeout=PROGRAM_SECONDS, check=False,
    )  # fmt: skip
    assert wanted in ended.stdout, ended.stderr


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (UsageError("bad value 3", hint="try 2"), 2, "ddpdoctor: bad value 3\n  try 2\n"),
        (UndecidedError("rank 1 never came"), 3, "ddpdoctor: rank 1 never came\n"),
        (DdpdoctorError("disk full"), 4, "ddpdoctor: disk full\n"),
        (PermissionError(13, "Permission denied", "/job.log"), 2, "ddpdoctor: /job.log: Permission denied\n"),
        (KeyboardInterrupt(), 130, "ddpdoctor: interrupted\n"),
        (RuntimeError("oops"), 4, "ddpdoctor failed: RuntimeError: oops\n"),
    ],
)
def test_every_error_is_a_sentence_and_a_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: BaseException, code: int, said: str
) -> None:
    app = command_line.App("ddpdoctor")

    @app.callback()
    def root() -> None:
        """Nothing."""

    @app.command("fail")
    def fail() -> None:
        raise error

    monkeypatch.setattr(cli, "_app", lambda _: app)
    monkeypatch.delenv("DDPDOCTOR_DEBUG", raising=False)
    assert cli.run(["fail"]) == code
    captured = capsys.readouterr()
    assert captured.err.startswith(said)
    assert captured.out == ""


def test_pages_are_found_in_the_installed_package_and_in_the_checkout() -> None:
    from ddpdoctor.cli.explain import page_of

    checkout = Path(__file__).parents[2] / "docs" / "findings"
    for path in checkout.glob("DDP*.md"):
        assert page_of(path.stem) == path.read_text()


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (["port", "abc"], "a whole number"),
        (["watch", "--stall-after", "abc", "--", "true"], "a number"),
        (["train", "--nproc", "abc"], "a whole number"),
    ],
)
def test_a_value_that_is_no_number_is_called_so(words: list[str], kind: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.run(words) == 2
    said = capfd.readouterr().err
    assert f"'abc' is not {kind}\n" in said
    assert "range" not in said
