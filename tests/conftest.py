"""What all tests stand on: a plain environment, Ctrl-C that reaches what they start, the same examples, which file runs where."""

from __future__ import annotations

import gc
import os
import re
import signal
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# What a CI service, a launcher or a user's shell sets is not there; the test that is about such a variable gives it.
_SET_OUTSIDE = re.compile(
    "CI|COLUMNS|LINES|NO_COLOR|FORCE_COLOR|TTY_COMPATIBLE|PYTEST_ADDOPTS|RANK|WORLD_SIZE|MASTER_ADDR|MASTER_PORT|PMI.*"
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


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """All that is made while 12,000 tests are collected stays: the collector of garbage goes over none of it, then or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


_IMPORTED = re.compile(r"^from (tests[.\w]+) import", re.MULTILINE)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Where `slow` or `matrix` tests are asked for alone, a file that has none is not imported to find that out."""
    mark = config.option.markexpr
    if mark in {"slow", "matrix"} and collection_path.match("test_*.py"):
        return not _marks(collection_path, f"mark.{mark}", config.rootpath) or None
    return None


def _marks(path: Path, mark: str, root: Path) -> bool:
    """Whether a file, or one of `tests` that it imports from, directly or not, uses this mark."""
    left, seen = [path], set[Path]()
    while left:
        file = left.pop()
        text = file.read_text(encoding="utf-8") if file not in seen and file.exists() else ""
        if mark in text:
            return True
        seen.add(file)
        left += [(root / module.replace(".", "/")).with_suffix(".py") for module in _IMPORTED.findall(text)]
    return False


_SHARES = re.compile(r'^@pytest\.fixture\(scope="(module|package)"', re.MULTILINE)


@cache
def _shared(path: Path) -> Path | None:
    """The file or folder whose tests share a fixture with those of a test file; None where the tests share none."""
    folder = path.parent / "conftest.py"
    if folder.exists() and (found := _SHARES.search(folder.read_text(encoding="utf-8"))):
        return path.parent if found[1] == "package" else path
    return path if _SHARES.search(path.read_text(encoding="utf-8")) else None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Where tests run in several processes, what shares an expensive fixture stays together.

    A slow test that shares none is a unit of its own, so that no process is left alone with a long file. A short one stays
    with its file, whose imports it shares.
    """
    from xdist.scheduler import LoadFileScheduling

    class SharedFixtures(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            shared = _shared(config.rootpath / file)
            alone = nodeid if config.option.markexpr == "slow" else file
            return alone if shared is None else str(shared)

    return SharedFixtures(config, log)
