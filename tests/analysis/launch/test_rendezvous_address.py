"""What is said of ranks that wait at another address than their launcher's depends on what sent them there."""

from __future__ import annotations

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence.launch import EnvOverwrite, Joining
from tests.hangs import C10D, SCRIPT, hang, rank, stack

WAITS = rank(
    stack((C10D, 1899, "init_process_group"), user=(8, "ddp_setup")),
    system_call="nanosleep",
)
PORT = EnvOverwrite(name="MASTER_PORT", value="12355", file=SCRIPT, line=7, function="ddp_setup")
JOINING = Joining(called=True, given="localhost:34491", used="localhost:12355", launchers_store=True)
WRITTEN = Joining(
    called=True, given="localhost:34491", used="localhost:12355", launchers_store=True, overwrites=(PORT,)
)


@pytest.mark.parametrize(("joining", "remedy"), [(JOINING, "without `init_method`"), (WRITTEN, "take the line out")])
def test_the_cure_is_about_the_call_where_no_line_sets_a_variable(joining: Joining, remedy: str) -> None:
    finding = diagnose(hang((*WAITS, joining), (*WAITS, joining))).findings[0]
    assert finding.code == "DDP231"
    assert remedy in finding.remedy
