"""What all tests stand on: Ctrl-C reaches the programs they start, hypothesis draws the same examples, files stay together."""

from __future__ import annotations

import signal
from typing import Any

import pytest
from hypothesis import settings

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
