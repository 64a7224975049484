"""What all tests stand on: a plain environment, Ctrl-C that reaches what they start, the same examples, files together."""

from __future__ import annotations

import os
import re
import signal
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# What a CI service, a launcher or a user's shell sets is not there; the test that is about such a variable gives it.
_SET_OUTSIDE = re.compile(
    "CI|COLUMNS|LINES|NO_COLOR|FORCE_COLOR|TTY_COMPATIBLE|RANK|WORLD_SIZE|MASTER_ADDR|MASTER_PORT|PMI.*"
    "|(DDPDOCTOR|GITHUB|LOCAL|NCCL|GLOO|CUDA|TORCH|TORCHELASTIC|SLURM|OMPI|OMP|MKL)_.*"
)
for _name in filter(_SET_OUTSIDE.fullmatch, list(os.environ)):
    del os.environ[_name]

# A shell without job control starts `make test &` with SIGINT ignored, and everything below would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A change is not refused for an example that it did not draw. New ones: pytest --hypothesis-profile=default
settings.register_profile(
    "same examples",
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],  # on a busy machine
)
settings.load_profile("same examples")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Where tests run in several processes, the files that share one Slurm stay together, too; the patterns' tests need not."""
    from xdist.scheduler import LoadFileScheduling

    class OneCluster(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            folder, _, _ = nodeid.rpartition("/")
            if nodeid.startswith("tests/laws/test_patterns.py"):
                return nodeid
            return folder if folder == "tests/clusters" else super()._split_scope(nodeid)

    return OneCluster(config, log)
