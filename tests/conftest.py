"""What all tests stand on: a plain environment, Ctrl-C for the programs they start, the same examples of hypothesis, files together."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest
from hypothesis import settings

# What a CI service, a launcher or a user's shell sets, and what ddpdoctor or PyTorch reads, is given by the test that is about it.
_READ = {"CI", "COLUMNS", "LINES", "MASTER_ADDR", "MASTER_PORT", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"}
_READ |= {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "CUDA_VISIBLE_DEVICES", "TORCH_DISTRIBUTED_DEBUG"}
_FAMILIES = ("DDPDOCTOR_", "GITHUB_", "NCCL_", "GLOO_", "TORCH_", "TORCHELASTIC_", "SLURM_", "OMPI_", "PMI", "OMP_", "MKL_")
for _name in [name for name in os.environ if name in _READ or name.startswith(_FAMILIES)]:
    del os.environ[_name]

# A shell without job control starts `make test &` with SIGINT ignored, and everything below would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A change is not refused for an example that it did not draw. New ones: pytest --hypothesis-profile=default
settings.register_profile("same examples", derandomize=True)
settings.load_profile("same examples")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Where tests run in several processes, the files that share one Slurm stay together, too."""
    from xdist.scheduler import LoadFileScheduling

    class OneCluster(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            folder, _, _ = nodeid.rpartition("/")
            return folder if folder == "tests/clusters" else super()._split_scope(nodeid)

    return OneCluster(config, log)
