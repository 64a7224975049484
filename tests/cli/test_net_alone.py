"""`net` without a launcher tests one host, and says that it tested no link."""

from __future__ import annotations

import pytest

from ddpdoctor import cli
from ddpdoctor.cli.net import ALONE
from ddpdoctor.evidence import Evidence
from ddpdoctor.launch import net_process


def test_net_on_one_host_says_that_no_link_was_tested(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("WORLD_SIZE", "RANK", "SLURM_NTASKS", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(net_process, "run_node", lambda *_, **__: Evidence())
    cli.run(["net"])
    assert f"note: {ALONE}" in " ".join(capsys.readouterr().out.split())
