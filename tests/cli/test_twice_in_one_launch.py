"""Several commands one after the other in the ranks of one torchrun, whose store outlives each of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
COMMANDS = ("env", "env", "allreduce-bench --sizes 64K --time-budget 1", "verify-sync")


def test_a_second_command_meets_the_ranks_of_its_own_run(tmp_path: Path) -> None:
    """Regression: what the first command had left in the store made the second one end with exit code 3."""
    doctor = f"{sys.executable} -m ddpdoctor"
    each = "; ".join(f"{doctor} {command} > {tmp_path}/$RANK.{n}; echo $?" for n, command in enumerate(COMMANDS))
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--no-python"]
    ended = subprocess.run(
        [*launch, "sh", "-c", f"({each}) > {tmp_path}/codes.$RANK"],
        env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=360, check=False,
    )  # fmt: skip
    codes = {rank: (tmp_path / f"codes.{rank}").read_text().split() for rank in (0, 1)}
    assert codes == {0: ["0"] * 4, 1: ["0"] * 4}, ended.stderr
    assert "on 2 ranks" in (tmp_path / "0.3").read_text()
