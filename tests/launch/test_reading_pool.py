"""Processes that read for us: none outlives us, none answers an interrupt with words of its own, and none holds up our end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import psutil
import pytest

from ddpdoctor.launch.reading_pool import ReadingPool
from tests.waiting import within

SECONDS = 60.0
READING = """
import os, signal, time
from ddpdoctor.launch.reading_pool import ReadingPool
def end(*_): raise KeyboardInterrupt
signal.signal(signal.SIGTERM, end)
try:
    with ReadingPool(2) as pool:
        reading = [pool.submit(time.sleep, 600) for _ in range(20)]
        print("ready", flush=True)
        reading[0].result()
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_what_the_processes_return_is_returned() -> None:
    with ReadingPool(2) as pool:
        assert [each.result() for each in [pool.submit(divmod, 7, number) for number in (2, 3)]] == [(3, 1), (2, 1)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_who_is_asked_to_end_waits_for_no_reader(number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", READING],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as reading:
        assert reading.stdout is not None
        assert reading.stderr is not None
        assert reading.stdout.readline() == "ready\n"
        below = psutil.Process(reading.pid).children()
        assert below
        if number is signal.SIGINT:
            os.killpg(reading.pid, number)  # as a terminal does: the readers get it too
        else:
            reading.send_signal(number)
        assert reading.stdout.readline() == "interrupted\n"
        assert reading.wait(timeout=SECONDS) == 0
        assert reading.stderr.read() == ""
    assert not any(each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in below)


def test_what_the_parent_ignores_ends_no_reader() -> None:
    """Regression: below `nohup` the end of the session killed the readers, and with them the command."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with ReadingPool(1) as pool:
            handlers = [pool.submit(signal.getsignal, number).result() for number in (signal.SIGHUP, signal.SIGTERM)]
    finally:
        signal.signal(signal.SIGHUP, before)
    assert handlers == [signal.SIG_IGN, signal.SIG_DFL]


def test_readers_end_where_we_are_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", READING], stdout=subprocess.PIPE, text=True) as reading:
        assert reading.stdout is not None
        reading.stdout.readline()
        below = psutil.Process(reading.pid).children()
        reading.kill()
    assert within(lambda: not any(each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in below))
