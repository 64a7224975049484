"""What was read of the source, put together from several readings: a saved case is judged as the run was."""

from __future__ import annotations

from ddpdoctor.cli.report_output import with_excerpts
from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.merge import join
from ddpdoctor.evidence.source import CodePlace, Request, SourceCode
from ddpdoctor.model import Report

WRITES = Request(file="train.py", line=26, function="train", text="p.clamp_(-1, 1)", wants="weights")
LOADS = Request(file="train.py", line=33, function="observe", text="model.load_state_dict(best)", wants="weights")


def test_excerpts_for_a_case_leave_what_the_source_asks_for() -> None:
    evidence = Evidence(job=(SourceCode(requests=(WRITES,)),))
    assert with_excerpts(evidence, Report(outcomes=(), findings=())).one(SourceCode) == SourceCode(requests=(WRITES,))


def test_readings_of_several_nodes_are_one_each_thing_once() -> None:
    place = CodePlace(file="train.py", line=26, function="train")
    first, second = SourceCode(requests=(WRITES,)), SourceCode(places=(place,), requests=(WRITES, LOADS))
    together = join([Evidence(job=(first,)), Evidence(job=(second,))], one_job=True).one(SourceCode)
    assert together == SourceCode(places=(place,), requests=(WRITES, LOADS))
