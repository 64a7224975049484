"""The weights of a job that is followed are those of the same job alone, bit by bit, in every way of training."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from ddpdoctor.agent import job_environment
from ddpdoctor.launch.guarded_process import run
from tests.agent.neutral_ranks import VARIANTS

pytestmark = pytest.mark.slow
PROGRAM = Path(__file__).with_name("neutral_ranks.py")


def weights(out: Path, environ: dict[str, str]) -> list[dict[str, str]]:
    out.mkdir()
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "3", str(PROGRAM)]
    ended = run(command, deadline_seconds=500, env={**environ, "NEUTRAL_OUT": str(out), "OMP_NUM_THREADS": "1"})
    assert ended.code == 0, ended.stderr
    return [json.loads((out / f"{rank}.json").read_text()) for rank in range(3)]


@pytest.mark.timeout(1200)
def test_following_a_job_changes_no_bit_of_its_weights(tmp_path: Path) -> None:
    directory = tmp_path / "agent"
    directory.mkdir()
    closely = {"DDPDOCTOR_SYNC_EVERY": "1", "DDPDOCTOR_SYNC_CLOSE_UP": "0-999 first.weight"}
    followed = weights(tmp_path / "followed", {**job_environment(["verify_sync"], directory, os.environ), **closely})
    alone = weights(tmp_path / "alone", {})
    assert not list(directory.glob("*.gave-up"))
    assert len(list(directory.glob("*.sync.jsonl"))) == 3
    for rank in range(3):
        assert set(alone[rank]) == set(VARIANTS)
        assert {name for name in alone[rank] if alone[rank][name] != followed[rank][name]} == set()
