"""A buffer that changed on one rank: by code, by design or by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence.audited_steps import Integrity, StepSeen
from ddpdoctor.model import Finding, Severity
from tests.analysis.replicas.audited_jobs import all_with, healthy

LEFT_TO_RANKS: dict[str, Any] = {"broadcasts_buffers": {"": False}}
NAMES = ("mask", "few", "mean")


def with_buffers(writes: Mapping[str, int] | None = None, *, flipped: int = 0, **buffers: str) -> list[StepSeen]:
    """Two steps before which all ranks have the same buffers, and one before which they have `buffers`.

    Each was written as often since then as `writes` says, and the bits `flipped` have changed in each.
    """
    start = dict.fromkeys(NAMES, "equal")
    made = writes or {}

    def seen(one: StepSeen, counts: dict[str, int], parity: int, own: dict[str, str]) -> StepSeen:
        integrity = Integrity(
            begin=0, state=0, end=0, buffers=counts, buffers_before=dict.fromkeys(NAMES, parity), after={"w": 7}
        )
        return replace(one, integrity=integrity, buffers={**start, **own})

    first, second, third = healthy()
    return [
        seen(first, dict.fromkeys(NAMES, 1), 9, {}), seen(second, dict.fromkeys(NAMES, 3), 9, {}),
        seen(third, {name: 3 + made.get(name, 0) for name in NAMES}, 9 ^ flipped, buffers),
    ]  # fmt: skip


def of_buffers(sick: list[StepSeen], others: list[StepSeen], **of_track: Any) -> Finding:
    """The first finding, which is the same with two ranks and with three."""
    two, three = (diagnose(all_with(sick, others, nproc=nproc, **of_track)).findings[0] for nproc in (2, 3))
    assert (two.code, two.severity) == (three.code, three.severity)
    return three


def test_a_bit_of_a_buffer_that_nothing_wrote_beside_statistics_that_are_written() -> None:
    found = of_buffers(with_buffers({"mean": 1}, flipped=8, mask="x"), with_buffers({"mean": 1}), **LEFT_TO_RANKS)
    assert (found.code, found.ranks, found.measured["cause"]) == ("DDP525", (1,), "buffer")
    assert found.message.endswith("(bit 3 of one element), and PyTorch counted no writes to it since step 1")


@pytest.mark.parametrize(
    ("name", "flipped"), [("mask", 1 << 3 | 1 << 35), ("mask", 0), ("few", 3)], ids=["two", "even", "small"]
)
def test_a_buffer_of_which_several_elements_changed_was_written_past_the_counters(name: str, flipped: int) -> None:
    """`module.scale.data.fill_(2.0)`."""
    found = of_buffers(with_buffers(flipped=flipped, **{name: "x"}), with_buffers(), **LEFT_TO_RANKS)
    assert (found.code, found.ranks, found.severity) == ("DDP508", (1,), Severity.FAIL)
    assert found.message.endswith(f"; {name} has changed on rank 1 only")


def test_a_buffer_that_operations_wrote_on_one_rank_only() -> None:
    found = of_buffers(with_buffers({"mask": 1}, flipped=8, mask="x"), with_buffers(), **LEFT_TO_RANKS)
    assert (found.code, found.ranks, found.severity) == ("DDP508", (1,), Severity.FAIL)


@pytest.mark.parametrize(
    ("of_track", "severity"),
    [
        (LEFT_TO_RANKS, Severity.INFO),
        ({"broadcasts_buffers": {"": True}, "ignored_buffers": frozenset({"mask"})}, Severity.INFO),
        ({"broadcasts_buffers": {"": True}}, Severity.FAIL),
    ],
    ids=["left to ranks", "ignored", "broadcast"],
)
def test_a_running_maximum_that_every_rank_writes_and_one_changes(of_track: dict[str, Any], severity: Severity) -> None:
    """`amax.copy_(torch.maximum(amax, x.abs().max()))`: the outlier is in one rank's batch."""
    found = of_buffers(with_buffers({"mask": 1}, flipped=8, mask="x"), with_buffers({"mask": 1}), **of_track)
    assert (found.code, found.severity) == ("DDP508", severity)


def test_statistics_that_each_rank_updates_on_its_own_are_no_fault() -> None:
    sick, others = with_buffers({"mean": 1}, mean="of 1"), with_buffers({"mean": 1}, mean="of the others")
    found = of_buffers(sick, others, **LEFT_TO_RANKS)
    assert (found.code, found.severity, found.remedy) == ("DDP508", Severity.INFO, "save and evaluate from rank 0")
    assert "; 1 buffer is updated by each rank on its own" in found.message
    assert of_buffers(sick, others, broadcasts_buffers={"": True}).severity is Severity.FAIL


def test_statistics_that_were_never_seen_equal_are_no_fault_where_they_are_left_to_the_ranks() -> None:
    """A forward before the loop has updated them, or a step that the GradScaler left out."""
    sick, others = (
        [replace(one, buffers={"mean": own}) for one in with_buffers()] for own in ("of 1", "of the others")
    )
    assert of_buffers(sick, others, **LEFT_TO_RANKS).severity is Severity.INFO
    assert of_buffers(sick, others, broadcasts_buffers={"": True}).severity is Severity.FAIL


def test_another_buffer_is_found_beside_statistics_of_each_rank() -> None:
    sick = with_buffers({"mean": 1, "mask": 1}, mean="of 1", mask="x")
    found = of_buffers(sick, with_buffers({"mean": 1}, mean="of the others"), **LEFT_TO_RANKS)
    assert (found.code, found.ranks, found.measured["tensors"]) == ("DDP508", (1,), ["mask"])
