"""The end of a process is waited for by the kernel, and in turns only where it cannot."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from ddpdoctor.launch.waiting import wait_for_end
from tests.waiting import PROGRAM_SECONDS


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """It ends with code 3 once its stdin is closed."""
    with subprocess.Popen([sys.executable, "-c", "input(); exit(3)"], stdin=subprocess.PIPE) as one:
        yield one


@pytest.fixture(params=[True, False], ids=["descriptor", "no descriptor"])
def _descriptors(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not request.param:
        monkeypatch.delattr(os, "pidfd_open", raising=False)


@pytest.mark.usefixtures("_descriptors")
def test_a_process_that_ends_is_told_of_with_its_code(process: subprocess.Popen[bytes]) -> None:
    assert wait_for_end(process, 0.0) is None
    assert wait_for_end(process, 0.02) is None
    process.communicate(b"\n", timeout=PROGRAM_SECONDS)
    assert wait_for_end(process, 60.0) == 3


def test_a_process_that_ends_by_itself_is_seen_at_once() -> None:
    with subprocess.Popen([sys.executable, "-c", "exit(3)"]) as process:
        assert wait_for_end(process, 600.0) == 3


def test_nobody_looks_meanwhile(process: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    """`Popen.wait` sleeps and looks in turns."""
    monkeypatch.setattr(time, "sleep", lambda _seconds: pytest.fail("it slept"))
    assert wait_for_end(process, 0.1) is None
