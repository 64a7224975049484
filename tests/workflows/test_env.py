"""How `env` brings the ranks together: what it makes is guarded before anything else begins."""

from __future__ import annotations

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
    guards = []

    def collect(access: HostAccess) -> HostFacts:
        started = [child.cmdline() for child in psutil.Process().children(recursive=True)]
        guards.extend(
            line for line in started if any(word.rpartition("/")[2].startswith("ddpdoctor-") for word in line)
        )
        access.stop.set()
        return HostFacts()

    monkeypatch.setattr(collect_all, "collect", collect)
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    launch = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", **where}
    with pytest.raises(UndecidedError):
        env.collect(HostAccess(environ=launch, by_hand=False), deadline_seconds=1)
    assert guards
