"""How `env` brings the ranks together: what it makes is guarded before anything else begins."""

from __future__ import annotations

import contextlib
import time

import psutil
import pytest

from ddpdoctor.errors import UndecidedError
from ddpdoctor.host import collect_all
from ddpdoctor.host.collect_all import HostFacts
from ddpdoctor.host.host_access import HostAccess
from ddpdoctor.workflows import env
from tests.free_port import free_port


def test_the_folder_has_a_guard_before_the_collectors_start_their_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A SIGKILL while they run removes the folder; without its guard it would stay."""
    guards: list[int] = []

    def collect(access: HostAccess) -> HostFacts:
        started = psutil.Process().children(recursive=True)
        time.sleep(0.5)  # a program that is just being loaded has no command line yet
        for child in started:
            with contextlib.suppress(psutil.NoSuchProcess):
                if any(word.rpartition("/")[2].startswith("ddpdoctor-") for word in child.cmdline()):
                    guards.append(child.pid)
        access.stop.set()
        return HostFacts()

    monkeypatch.setattr(collect_all, "collect", collect)
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    launch = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", **where}
    with pytest.raises(UndecidedError):
        env.collect(HostAccess(environ=launch, by_hand=False), deadline_seconds=3)
    assert guards
