"""Weights that some ranks wrote at a step that was not audited: counts of writes tell which ranks did."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence.audited_steps import Integrity
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.training_trace import Table
from tests.audited_steps import LINES, job_of

AUDITED = (0, 7, 15, 31)
PARAMETERS = 2
LOAD = Frame(file="train.py", line=33, function="observe")


def found(
    more: Mapping[tuple[int, int], int],
    *,
    differs: Mapping[int, int] | None = None,
    loads: Mapping[int, int] | None = None,
    settings: Mapping[int, str] | None = None,
    nproc: int = 3,
) -> tuple[str, str, list[int], int | None]:
    """The first finding where `more[rank, audit]` writes were made besides those of steps before an audit.

    `differs` are the ranks that have other weights from an audit on, `loads` those that loaded some at step 23 with the audit
    that saw it, `settings` learning rates at the last audit.
    """

    def seen(rank: int, place: int) -> dict[str, Any]:
        step = AUDITED[place]
        besides = sum(number for (one, audit), number in more.items() if one == rank and audit <= place)
        begin = PARAMETERS * step + besides
        last = (differs or {}).get(rank, len(AUDITED))
        return {
            "step": step,
            "forwards": step + 1,
            "weights": "other" if place >= last else "w",
            "after": "other" if place >= last else "w",
            "lines": {**LINES, "load": LOAD} if (loads or {}).get(rank) == place else LINES,
            "settings": {"lr": (settings or {}).get(rank, "0.1") if place == len(AUDITED) - 1 else "0.1"},
            "integrity": Integrity(begin=begin, state=0, end=begin + PARAMETERS),
        }

    tables = [{name: Table(digests={"w": name}) for name in ("w", "other")}] * nproc
    report = diagnose(job_of(seen, nproc=nproc, steps=len(AUDITED), tables=tables))
    first = report.findings[0]
    return first.code, first.message, list(first.ranks), first.where[0].line


def test_the_rank_that_wrote_more_often_is_named_and_where_it_loaded() -> None:
    code, message, ranks, line = found({(0, 3): 2}, differs={0: 3}, loads={0: 3})
    assert message == "between steps 15 and 31 of 32, rank 0 wrote 1 of 1 parameters (w) outside the optimizer"
    assert (code, ranks, line) == ("DDP509", [0], LOAD.line)


def test_counts_decide_between_two_ranks() -> None:
    assert found({(1, 3): 2}, differs={1: 3}, nproc=2)[::2] == ("DDP509", [1])


@pytest.mark.parametrize("loads", [{}, {0: 3, 1: 3, 2: 3}, {1: 3}])
def test_a_load_that_is_not_of_these_ranks_alone_is_not_shown(loads: dict[int, int]) -> None:
    assert found({(0, 3): 2}, differs={0: 3}, loads=loads)[3] == LINES["forward"].line


def test_equal_counts_name_nobody() -> None:
    """A write through `.data` is not counted."""
    assert found({}, differs={0: 3})[0] == "DDP503"
    assert found({(rank, 3): 2 for rank in range(3)}, differs={0: 3}, loads={0: 3})[0] == "DDP503"


def test_a_job_that_had_written_unequally_before_without_effect_names_nobody() -> None:
    """Rank 0 evaluates an average of the weights, and puts its own back."""
    assert found({(0, 2): 4, (0, 3): 4}, differs={1: 3})[0] == "DDP503"


def test_what_is_still_seen_at_the_audited_step_is_the_cause() -> None:
    assert found({(0, 3): 2}, differs={1: 3}, settings={1: "0.05"})[::2] == ("DDP506", [1])
