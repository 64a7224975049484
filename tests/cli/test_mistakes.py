"""Mistakes on the command line: one shape, the value that is wrong, and what was most likely meant."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ddpdoctor import cli
from ddpdoctor.cli.mistakes import in_plain_words


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["lint", "--form", "json"], "no such option: --form", "did you mean --format? "),
        (["lint", "--fromat", "json"], "no such option: --fromat", "did you mean --format? "),
        (["port", "--json"], "no such option: --json", "did you mean --format json? "),
        (["lint", "--xyzzy"], "no such option: --xyzzy", ""),
        (["allreduce-bench", "--collective", "allreduce"], "'send_recv'", "did you mean all_reduce? "),
        (["port", "x"], "'x' is not a whole number", ""),
        (["hang", "x"], "'x' is not a whole number", ""),
        (["port", "99999"], "99999 is not in the range 1<=x<=65535", ""),
        (["init"], "missing argument 'LAUNCHER'. Choose from: slurm, slurm-tasks, torchrun, k8s, pytorchjob", ""),
    ],
)
def test_a_mistake_is_two_lines_what_is_wrong_and_what_to_type(
    words: list[str], message: str, hint: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(words) == 2
    wrong, instead = capfd.readouterr().err.splitlines()
    assert wrong.startswith("ddpdoctor: ")
    assert wrong.endswith(message)
    assert instead == f"  {hint}`ddpdoctor {words[0]} --help` shows how it is used"


@pytest.mark.parametrize("kind", ["int range", "integer range", "int", "integer"])
def test_every_version_of_typer_says_of_a_word_that_it_is_no_whole_number(kind: str) -> None:
    """Regression: with typer 0.28, `port x` was 'not a valid int range'."""
    error = SimpleNamespace(format_message=lambda: f"Invalid value for 'PORT': 'x' is not a valid {kind}.")
    assert in_plain_words(error) == "invalid value for 'PORT': 'x' is not a whole number"


def test_without_a_command_the_help_is_shown_as_it_is_laid_out(capfd: pytest.CaptureFixture[str]) -> None:
    """Regression: all of it was one line of an error."""
    assert cli.run([]) == 2
    bare = capfd.readouterr()
    assert cli.run(["--help"]) == 0
    assert bare == capfd.readouterr()
    assert not bare.err


@pytest.mark.parametrize(
    ("words", "absent"),
    [
        (["--master-addr", "node0"], "--nnodes and --node-rank are missing"),
        (["--nnodes", "2", "--node-rank", "5"], "--master-addr is missing"),
        (["--nnodes", "2", "--node-rank", "1", "--master-addr", ""], "--master-addr is missing"),
    ],
)
def test_the_place_of_a_node_is_given_as_a_whole_and_never_left_out_of_account(
    words: list[str], absent: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`net --master-addr NAME` alone once tested this host only, and found nothing wrong with a name that does not exist."""
    for name in ("MASTER_ADDR", "RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    assert cli.run(["net", *words]) == 2
    assert capfd.readouterr().err.startswith(f"ddpdoctor: {absent}: ")
