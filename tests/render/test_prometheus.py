"""Metrics as Prometheus reads them."""

from __future__ import annotations

import re

from ddpdoctor.evidence.rank_status import RankStatus
from ddpdoctor.render import prometheus
from tests.render import REPORT

RANKS = (
    RankStatus(rank=0, host='a"b', pid=1, state="x", steps=35, late_seconds=0.01, idle_seconds=0.5),
    RankStatus(rank=1, host="c", pid=2, state="x", steps=34),
)


def test_every_line_is_a_comment_or_a_sample() -> None:
    text = prometheus.render(RANKS, REPORT, idle=4.5, exit_code=None)
    assert text.endswith("\n")
    for line in text.splitlines():
        assert re.fullmatch(
            r"# (HELP|TYPE) ddpdoctor_\w+ .+|ddpdoctor_\w+(\{(\w+=\"([^\"\\]|\\.)*\",?)+\})? [-\d.e+]+", line
        )
    named = re.findall(r"^# TYPE (\w+)", text, flags=re.MULTILINE)
    assert len(named) == len(set(named)), "a metric is declared twice"


def test_what_is_known_of_ranks_and_verdict_is_there() -> None:
    text = prometheus.render(RANKS, REPORT, idle=4.5, exit_code=None)
    assert 'ddpdoctor_steps_total{rank="0",host="a\\"b"} 35\n' in text
    assert 'ddpdoctor_lateness_seconds{rank="0",host="a\\"b"} 0.01\n' in text
    assert 'ddpdoctor_lateness_seconds{rank="1"' not in text
    assert "ddpdoctor_seconds_since_progress 4.5\n" in text
    assert "ddpdoctor_job_running 1\n" in text
    assert 'ddpdoctor_findings{severity="fail"} 1\n' in text
    assert 'ddpdoctor_verdict{code="DDP305",name="collective-called-by-some",severity="fail"} 1\n' in text


def test_a_job_that_has_ended_has_its_exit_code() -> None:
    text = prometheus.render((), None, idle=0.0, exit_code=-9)
    assert "ddpdoctor_job_running 0\n" in text
    assert "ddpdoctor_job_exit_code -9\n" in text
    assert "ddpdoctor_verdict{" not in text
