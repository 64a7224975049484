"""The callbacks in the real packages: silent while replicas agree, and every rank told when one comes apart."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

JOBS = Path(__file__).parent / "jobs"
SAYS = "FAIL DDP503 weights-differ"


@pytest.mark.slow
@pytest.mark.parametrize("package", ["lightning", "accelerate", "transformers"])
def test_a_weight_that_changes_on_one_rank_ends_training_on_all(package: str) -> None:
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    for sick_step, code in (("none", 0), ("5", 1)):
        ended = subprocess.run(
            [
                *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"),
                *(str(JOBS / f"{package}_job.py"), sick_step),
            ],
            env={**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert ended.returncode == code, ended.stdout + ended.stderr
        assert ("trained to the end" in ended.stdout) == (code == 0)
        assert (f"after step 6: {SAYS}" in ended.stdout) == (code == 1)
        assert ended.stdout.count("rank 0 was told") == ended.stdout.count("rank 1 was told") == code
