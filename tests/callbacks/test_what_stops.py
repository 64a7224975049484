"""Training is ended for replicas that differ, and for nothing else."""

from __future__ import annotations

import logging

import pytest
from torch import nn

import ddpdoctor
from ddpdoctor.callbacks import ReplicasDifferError, check_replicas
from ddpdoctor.catalogue import all_rules
from ddpdoctor.model import Ran, Report

RULE = next(rule for rule in all_rules() if rule.code == "DDP503")
FINDING = RULE.finding("weight[0] is 1.0 on rank 0 and 2.0 on rank 1", ranks=(0, 1))
DIFFER = Report(outcomes=(Ran(RULE, (FINDING,)),), findings=(FINDING,))
UNDECIDED = Report(outcomes=(), findings=(), undecided=("rank 1: out of memory",))


def compared(report: Report, monkeypatch: pytest.MonkeyPatch, *, stop: bool = True) -> None:
    monkeypatch.setattr(ddpdoctor, "verify_sync", lambda model, optimizer: report, raising=False)
    check_replicas(nn.Linear(1, 1), (), 6, stop=stop)


def test_replicas_that_differ_end_training(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ReplicasDifferError, match=r"after step 6: FAIL DDP503 weights-differ: weight\[0\] is 1.0"):
        compared(DIFFER, monkeypatch)


@pytest.mark.parametrize(
    ("report", "stop", "said"), [(DIFFER, False, "weight[0] is 1.0"), (UNDECIDED, True, "of memory")]
)
def test_what_ends_nothing_is_logged(
    report: Report, stop: bool, said: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, logger="ddpdoctor"):
        compared(report, monkeypatch, stop=stop)
    assert said in caplog.text
