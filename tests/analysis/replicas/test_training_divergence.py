"""Tracks to what the ranks did differently: draws, scalers, settings, handles; and at which of the user's lines."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.training_trace import EpochSeen, OverflowSeen, Table, UnwaitedSeen
from ddpdoctor.workflows.verify_rerun import exact
from tests.audited_steps import LINES, STEP, Make, found, job_of


def drawing(*states: Callable[[int, int], int]) -> Make:
    return lambda rank, step: {"random": tuple({"torch": state(rank, step)} for state in states)}


def test_a_rank_that_loads_less_than_its_peers_is_said_to_have_kept_the_rest() -> None:
    """Each rank loads a file of its own with strict=False; the keys of rank 2's head have another name."""
    tables = {"w": {"a": "0", "head": "0"}, "all": {"a": "1", "head": "1"}, "part": {"a": "1", "head": "0"}}
    held = {name: Table(digests=digests) for name, digests in tables.items()}

    def loads(rank: int, _: int) -> dict[str, Any]:
        weights = "part" if rank == 2 else "all"
        return {"weights": weights, "after": weights, "lines": {**LINES, "load": LINES["forward"]}}

    (written, *_) = diagnose(job_of(loads, steps=1, tables=[held] * 3)).findings
    assert written.message == (
        "before step 0 of 1, rank 2 kept 1 of 2 parameters (head), which all other ranks wrote outside the optimizer"
    )
    assert "strict=True" in written.remedy


def test_draws_are_the_same_only_where_ranks_draw() -> None:
    both = drawing(lambda _, step: 3 * step, lambda _, step: 3 * step + 1)
    assert found(both) == ["DDP516 [0, 1, 2] 5"] * 2  # within the steps, and between them
    assert found(drawing(lambda *_: 1, lambda *_: 1)) == []
    assert found(drawing(lambda rank, step: 99 * rank + 3 * step, lambda rank, step: 99 * rank + 3 * step + 1)) == []


def test_a_step_left_out_by_one_scaler_is_told_with_its_line() -> None:
    left_out = OverflowSeen(step=1, forwards=2, scale=1024.0, line=STEP)

    def make(rank: int, step: int) -> dict[str, Any]:
        return {"step": step - 1 if rank == 2 and step > 1 else step, "scale": 1024.0}

    assert found(make, overflows=[(), (), (left_out,)])[0] == "DDP510 [2] 7"


def test_scalers_that_leave_a_step_out_together_are_no_finding() -> None:
    left_out = OverflowSeen(step=1, forwards=2, scale=1024.0, line=STEP)

    def make(_rank: int, step: int) -> dict[str, Any]:
        return {"step": step - 1 if step > 1 else step, "scale": 1024.0}

    assert found(make, overflows=[(left_out,)] * 3) == []


def losing(*losses: float) -> Evidence:
    """Ranks whose GradScaler leaves out each of these steps; rank 1 has these losses."""

    def make(rank: int, step: int) -> dict[str, Any]:
        return {"step": 0, "scale": 8.0, "left_out": True, "loss": losses[step] if rank == 1 else 2.5}

    evidence = job_of(make, steps=len(losses))
    return replace(
        evidence,
        ranks=tuple(
            replace(one, facts=tuple(replace(track, steps=(), left_out=track.steps) for track in one.facts))
            for one in evidence.ranks
        ),
    )


def test_a_loss_that_is_nan_again_and_again_is_told_although_the_scaler_leaves_these_steps_out() -> None:
    (said,) = diagnose(losing(2.5, math.nan, math.nan, math.nan)).findings
    assert (said.code, said.ranks, said.where[0].line) == ("DDP517", (1,), 6)
    assert diagnose(losing(2.5, math.nan, 2.5, math.nan)).findings == ()  # each of them the scaler takes care of
    assert diagnose(losing(math.inf, math.inf, math.inf)).findings == ()  # its scale was too large


@pytest.mark.parametrize(
    ("since", "scale", "told"),
    [((81, 80, 81), None, ["DDP517 [1] 2"]), ((80, 80, 80), None, []), ((81, 80, 81), 8.0, [])],
)
def test_the_rank_whose_loss_was_lost_first_is_told_where_no_audited_step_lies_between(
    since: tuple[int, ...], scale: float | None, told: list[str]
) -> None:
    def make(rank: int, step: int) -> dict[str, Any]:
        lost = {"loss": math.nan, "lost_at": since[rank], "scale": scale, "lines": {"lost": MAKES}}
        return lost if step >= 2 else {"loss": 2.5}

    assert found(make) == told


def test_a_loss_that_was_lost_in_an_audited_step_is_told_once() -> None:
    """Regression: the next step told it again, by the first loss of each rank."""

    def make(rank: int, step: int) -> dict[str, Any]:
        lost = {"loss": math.nan, "lost_at": 1 if rank == 1 else 2}
        return {**lost, "finite": False} if step >= 2 or (step, rank) == (1, 1) else {"loss": 2.5}

    assert found(make) == ["DDP517 [1] 5"]


def test_a_scale_of_ones_own_is_a_setting() -> None:
    assert found(lambda rank, _: {"scale": 512.0 if rank == 1 else 1024.0}) == ["DDP506 [1] 7"]


LOADS, MAKES = (Frame(file="train.py", line=line, function="main") for line in (3, 2))


def test_settings_that_part_the_same_ranks_are_one_finding_at_the_line_that_gave_them() -> None:
    def make(rank: int, _step: int) -> dict[str, Any]:
        rate = "0.2" if rank == 1 else "0.1"
        return {"settings": {"initial_lr": rate, "lr": rate, "nesterov": "False"}, "setting_lines": {"lr": MAKES}}

    assert found(make) == ["DDP506 [1] 2"]
    (finding,) = diagnose(job_of(make)).findings
    assert finding.message == "at step 0 of 4, lr is 0.1 on ranks 0,2 and 0.2 on rank 1; also different: initial_lr"
    assert finding.where[0].note == "sets the value"
    assert found(lambda rank, step: {**make(rank, step), "setting_lines": {} if rank == 1 else {"lr": MAKES}}) == [
        "DDP506 [1] 7"
    ]


@pytest.mark.parametrize(("known_from", "lines"), [(1, ["DDP506 [1] 2"]), (2, ["DDP506 [1] 7", "DDP506 [1] 2"])])
def test_a_setting_whose_line_is_known_from_the_next_step_on_is_one_finding(known_from: int, lines: list[str]) -> None:
    """Where steps lie between, a schedule may have written it later than what is at fault."""

    def make(rank: int, step: int) -> dict[str, Any]:
        given = {"lr": MAKES} if step >= known_from else {}
        return {"settings": {"lr": "0.2" if rank == 1 else "0.1"}, "setting_lines": given}

    assert found(make) == lines


@pytest.mark.parametrize(
    ("loads", "line", "note"), [((1,), 3, "loads weights"), ((), 5, "the first forward after the write")]
)
def test_weights_of_one_rank_point_to_where_it_loaded_them(loads: tuple[int, ...], line: int, note: str) -> None:
    def make(rank: int, step: int) -> dict[str, Any]:
        before = {"load": LOADS} if step == 2 and rank in loads else {}
        return {"weights": "other" if (rank, step) == (1, 2) else "w", "lines": {**LINES, **before}}

    tables = {key: Table(digests={"w": key}) for key in ("w", "other")}
    evidence = job_of(make, tables=[tables] * 3)
    (finding,) = diagnose(evidence).findings
    assert (finding.code, finding.ranks, finding.where[0].line, finding.where[0].note) == ("DDP509", (1,), line, note)
    command = "ddpdoctor verify-sync --every 1 --replay train.py"
    assert any("finds the line" in said for said in exact(evidence, command, None).notes) is not bool(loads)


def test_state_that_differs_before_the_first_step_points_to_where_it_was_loaded() -> None:
    make: Make = lambda rank, step: {"state": {"w.exp_avg": str(rank == 1)}, "loaded": None if step else LOADS}  # noqa: E731
    assert found(make) == ["DDP507 [1] 3"]
    (finding,) = diagnose(job_of(make)).findings
    assert finding.where[0].note == "loads the optimizer state"


def test_a_handle_thrown_away_is_told_with_its_call() -> None:
    thrown = UnwaitedSeen(op="all_reduce", step=2, line=LINES["forward"])
    assert found(lambda *_: {}, unwaited=[(thrown,), (), (thrown,)]) == ["DDP520 [0, 2] 5"]


def epochs(*parts: tuple[int, ...], batches: int) -> tuple[tuple[EpochSeen, ...], ...]:
    """One pass over ten samples, of which rank N drew `parts[N]`."""
    return tuple(
        (EpochSeen(loader=0, number=0, batches=batches, finished=True, length=10, indices=part, line=STEP),)
        for part in parts
    )


def drawn(*parts: tuple[int, ...]) -> list[str]:
    return found(lambda _rank, _step: {}, nproc=len(parts), epochs=epochs(*parts, batches=3))


def test_a_last_batch_that_is_filled_up_from_the_front_is_padding() -> None:
    assert drawn((0, 1, 4, 5, 8, 9), (2, 3, 6, 7, 0, 1)) == []
    assert drawn((0, 1, 4, 5, 8, 9), (2, 3, 0, 1, 6, 7)) == ["DDP512 [0, 1] 7"]


SHUFFLED = ((3, 0, 1, 2), (1, 0, 3, 2))  # each rank's own order


@pytest.mark.parametrize(
    ("indices", "kept", "inputs", "told"),
    [
        (SHUFFLED, ("a", "b"), ("x", "y"), []),
        (SHUFFLED, ("a", "a"), ("x", "y"), ["DDP512 [0, 1] 7"]),
        (SHUFFLED, ("", ""), ("x", "y"), ["DDP512 [0, 1] 7"]),
        (((0, 1, 2, 3),) * 2, ("a", "b"), ("x", "y"), []),
        (((0, 1, 2, 3),) * 2, ("a", "b"), (None, None), []),
        (((0, 1, 2, 3),) * 2, ("", ""), ("x", "y"), []),
        (((0, 1, 2, 3),) * 2, ("", ""), (None, None), ["DDP511 [0, 1] 7"]),
        (((0, 1, 2, 3),) * 2, ("a", "a"), ("x", "y"), ["DDP511 [0, 1] 7"]),  # augmented
        (((0, 1, 2, 3),) * 2, ("a", "b"), ("x", "x"), ["DDP511 [0, 1] 7"]),  # they differ in a path, and not in data
    ],
)
def test_ranks_with_data_sets_of_their_own_may_draw_the_same_indices(
    indices: Any, kept: Any, inputs: Any, told: list[str]
) -> None:
    ranks = zip(epochs(*indices, batches=1), kept, strict=True)
    passes = tuple((replace(epoch, length=4, data=data),) for (epoch,), data in ranks)
    assert found(lambda rank, _step: {"input": inputs[rank]}, nproc=2, epochs=passes) == told


def test_a_sampler_that_divides_a_data_set_is_made_for_one_that_ranks_share() -> None:
    ranks = zip(epochs((0, 1, 2), (1, 2, 3), batches=3), "ab", strict=True)
    passes = tuple((replace(epoch, sampler="DistributedSampler", data=data),) for (epoch,), data in ranks)
    assert found(lambda *_: {}, nproc=2, epochs=passes) == ["DDP512 [0, 1] 7"]


def test_uneven_last_batches_are_information_and_others_a_finding() -> None:
    def sizes(uneven_at: int) -> list[tuple[str, str]]:
        make: Make = lambda rank, step: {  # noqa: E731
            "batch": 4 - (rank == 2 and step == uneven_at), "wrapped": 1, "position": (0, step + 1),
        }  # fmt: skip
        report = diagnose(job_of(make, epochs=epochs((0, 3, 6, 9), (1, 4, 7), (2, 5, 8), batches=4)))
        return [(finding.code, finding.severity.value) for finding in report.findings]

    assert sizes(3) == [("DDP514", "info")]
    assert sizes(1) == [("DDP514", "fail")]


def test_state_that_parts_behind_a_join_names_the_ranks_that_ran_out_of_data() -> None:
    make: Make = lambda rank, _step: {"state": {"w.exp_avg": str(rank)}, "shadowed": 2 * (rank == 0)}  # noqa: E731
    assert found(make, nproc=2) == ["DDP507 [0] 7"]
    (finding,) = diagnose(job_of(make, nproc=2)).findings
    assert "rank 0 ran out of data inside Join and missed 2 updates; Join synchronises weights" in finding.message


def test_state_that_one_rank_did_not_load_is_told() -> None:
    make: Make = lambda rank, step: {"state": {} if (rank, step) == (1, 0) else {"w.exp_avg": "a"}}  # noqa: E731
    assert found(make) == ["DDP507 [1] 7"]
    (finding,) = diagnose(job_of(make)).findings
    assert finding.message == "at step 0: w.exp_avg is present on ranks 0,2 and absent on rank 1"
    (finding,) = diagnose(job_of(make, nproc=2)).findings
    assert finding.message.endswith("absent on rank 1; no majority: either side may be at fault")


ACTORS = {"steps_made": [4, 0, 0]}


def _only_rank_0_steps(rank: int, step: int) -> dict[str, Any]:
    return {} if rank == 0 else {"step": 0, "lines": {}}


def test_actors_that_never_step_beside_a_learner_are_no_finding_and_the_reason_is_given() -> None:
    job = job_of(_only_rank_0_steps, start=[None] * 3, **ACTORS)
    report = diagnose(job)
    assert not report.findings
    assert any("ranks 1-2 never stepped an optimizer" in str(one) for one in report.skipped)


def test_a_rank_that_never_steps_its_wrapped_model_is_named() -> None:
    assert found(_only_rank_0_steps, **ACTORS)


def test_a_rank_that_computes_gradients_and_never_steps_is_named() -> None:
    make: Make = lambda rank, _: {} if rank == 0 else {"step": 0}  # noqa: E731
    assert found(make, start=[None] * 3, **ACTORS)
