"""A signal that comes before the job has started reaches the job, and does not get lost."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from ddpdoctor.launch.observed_job import Received, _passing_signals_on
from tests.waiting import SECONDS


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_a_signal_before_the_start_is_passed_on_at_the_start(number: signal.Signals) -> None:
    received: list[Received] = []
    with _passing_signals_on(received) as begin:
        signal.raise_signal(number)
        job = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
        assert job.poll() is None
        begin(job.pid)
        job.wait(SECONDS)
    assert job.returncode != 0
    assert [each.signal for each in received] == [number]


def test_without_a_signal_nothing_is_sent() -> None:
    received: list[Received] = []
    with _passing_signals_on(received) as begin:
        job = subprocess.Popen([sys.executable, "-c", "pass"])
        begin(job.pid)
        assert job.wait(SECONDS) == 0
    assert received == []
