"""Mistakes on the command line: one shape, the value that is wrong, and what was most likely meant."""

from __future__ import annotations

import pytest

from ddpdoctor import cli


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["lint", "--form", "json"], "no such option: --form", "did you mean --format? "),
        (["lint", "--fromat", "json"], "no such option: --fromat", "did you mean --format? "),
        (["port", "--json"], "no such option: --json", "did you mean --format json? "),
        (["lint", "--xyzzy"], "no such option: --xyzzy", ""),
        (["allreduce-bench", "--collective", "allreduce"], "'send_recv'", "did you mean all_reduce? "),
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
