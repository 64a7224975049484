"""The jobs on this host, and which of their ranks have an agent that can be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpdoctor.agent.inside.call_ring import CallRing
from ddpdoctor.agent.inside.schema import call_ring as layout
from ddpdoctor.host.running_jobs import _agents


@pytest.mark.parametrize("version", [layout.VERSION, layout.VERSION + 1], ids=["this version", "another version"])
def test_a_job_under_another_version_of_ddpdoctor_has_no_agents_and_the_reason_is_known(
    version: int, tmp_path: Path
) -> None:
    CallRing(str(tmp_path / "77.ring"), rank=1, world_size=2, restart=0)
    data = bytearray((tmp_path / "77.ring").read_bytes())
    layout.PREAMBLE.pack_into(data, 0, layout.MAGIC, version)
    (tmp_path / "77.ring").write_bytes(bytes(data))
    found, unread = _agents([str(tmp_path), ""])
    if version == layout.VERSION:
        assert ([agent.rank for agent in found], unread) == ([1], "")
    else:
        assert found == []
        assert unread == (
            f"the call ring of process 77 has format {layout.VERSION + 1}, and this ddpdoctor reads format {layout.VERSION}: "
            "use the ddpdoctor that the job was started with"
        )
