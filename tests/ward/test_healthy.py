"""Healthy jobs, however odd, end with code 0 and without a word; jobs of strangers get the right name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ward.cases import Case, healthy, middle, strangers
from tests.ward.jobs import torchrun, watch

PATIENCE = 20.0  # the longest that one of them waits on purpose is ten seconds, on a free machine
QUICK = "sends_uneven_sizes"


def left_alone(program: Path, nproc: int) -> None:
    watched = watch(torchrun(program, nproc), stall_after=PATIENCE)
    assert not watched.report["findings"], watched.transcript
    assert watched.ended.code == 0, watched.transcript


def test_a_healthy_job_is_left_alone() -> None:
    left_alone(next(path for path in healthy() if path.stem == QUICK), 3)


@pytest.mark.matrix
@pytest.mark.parametrize("nproc", [2, 4])
@pytest.mark.parametrize("program", healthy(), ids=lambda path: path.stem)
def test_healthy_jobs_are_left_alone(program: Path, nproc: int) -> None:
    left_alone(program, nproc)


@pytest.mark.matrix
@pytest.mark.parametrize("nproc", [2, 4])
@pytest.mark.parametrize("case", list(strangers()), ids=lambda case: case.name)
def test_strangers_jobs_are_named(case: Case, nproc: int) -> None:
    if case.needs_majority and nproc == 2:
        pytest.skip("of two ranks nobody can tell which is at fault")
    culprit = middle(nproc)
    watched = watch(torchrun(case.program, nproc), culprit=culprit)
    assert not case.wrongs(watched.report, culprit, nproc), watched.transcript
