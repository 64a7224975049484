"""Numbers that others write: Python raises for one of 5,000 digits."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ddpdoctor import cli
from ddpdoctor.agent.inside.calls.call_ring import CallRing
from ddpdoctor.agent.inside.rank_process import Rank
from ddpdoctor.ranks import nccl_ras
from ddpdoctor.render.console import new_console
from ddpdoctor.whole_numbers import whole_number

LONG = "9" * 5000
VARIABLES = (
    "COLUMNS", "LINES", "JUPYTER_COLUMNS", "JUPYTER_LINES", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK",
    "SLURM_PROCID", "SLURM_NTASKS", "OMPI_COMM_WORLD_RANK",
)  # fmt: skip
DDPDOCTOR = Path(__file__).parents[1] / "ddpdoctor"
# Who reads a number of digits with another bound, or of what only the kernel or ddpdoctor itself writes.
BOUNDED_OTHERWISE = {
    "agent/inside/process/allow_ptrace.py", "agent/inside/calls/call_ring.py", "agent/inside/rank_process.py",
    "checkpoints/layout.py",
    "checks/ddp763_same_node_rank_everywhere.py", "checks/ddp708_more_ranks_than_gpus.py", "cli/terminal.py", "host/cgroup.py",
    "host/limits.py", "host/network.py", "host/processes.py", "host/system_calls.py", "launch/process_tree.py",
    "launch/ranks.py", "launch/stderr_tee.py", "launch/subreaper.py", "logs/launchers.py", "planted_files.py",
    "ranks/agent_files.py", "ranks/fr_dump_files.py", "ranks/nccl_ras.py", "secrets.py",
    "analysis/launch/rendezvous_address.py", "transport/rank_0.py", "transport/store.py", "whole_numbers.py",
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "number"), [("7", 7), ("٣", 3), ("", None), ("-1", None), ("²", None), ("1_0", None), (LONG, None)]
)
def test_a_text_of_few_digits_is_a_number(text: str, number: int | None) -> None:
    assert whole_number(text) == number


@pytest.mark.parametrize("name", VARIABLES)
@pytest.mark.parametrize("words", [("diagnose", "job.log"), ("port", "--help"), ("config",)], ids=" ".join)
def test_no_variable_of_5000_digits_is_a_bug_of_ours(
    name: str,
    words: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(name, LONG)
    Path("job.log").write_text("[rank1]: Traceback (most recent call last):\n[rank1]: ValueError: x\n")
    assert cli.run([*words]) in {0, 1}
    assert "bug in ddpdoctor" not in capfd.readouterr().err


@pytest.mark.parametrize("size", [LONG, "9" * 18, "10000000", "0", "-1"])
def test_a_screen_of_absurd_size_is_none(size: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COLUMNS", "LINES"):
        monkeypatch.setenv(name, size)
    assert max(new_console().size) < 10_000


def test_a_rank_of_5000_digits_does_not_end_the_users_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.setenv(name, LONG)
    rank = Rank(str(tmp_path))
    CallRing(str(tmp_path / "1.ring"), rank=0, world_size=1, restart=0)
    assert rank._given(None, "RANK") is None


def test_a_process_of_5000_digits_is_no_rank() -> None:
    answer = f"Errors\n======\n\nINCOMPLETE\n  Process {LONG} on node 10.0.0.2 managing GPU 1\n\n"
    (said,) = nccl_ras.complaints(answer, {4101: 0}, {"10.0.0.2"})
    assert "(rank" not in said


def test_digits_are_read_by_one_function() -> None:
    asks = {
        str(file.relative_to(DDPDOCTOR))
        for file in DDPDOCTOR.rglob("*.py")
        if re.search(r"\.is(?:decimal|digit)\(\)", file.read_text(encoding="utf-8"))
    }
    assert asks == BOUNDED_OTHERWISE
