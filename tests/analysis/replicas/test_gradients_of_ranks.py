"""Tracks to what happened to gradients on some ranks: not reduced, changed, scaled, not finite; and by which line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence.audited_steps import Gradient, Integrity, StepSeen
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.training_trace import OverflowSeen, Table
from tests.audited_steps import LINES, STEP, Make, found, gradient, job_of


def test_a_script_that_averages_by_itself_and_forgets_a_gradient_is_told_so() -> None:
    def make(rank: int, _step: int, local: float | None = 1.0) -> dict[str, Any]:
        own = Gradient(
            digest=f"g{rank}", reduced=1.0 + rank, local=local and local + rank, count=1, standing="no model"
        )
        return {"gradients": {"w": own}}

    by_hand = {"lines": {**LINES, "grad": LINES["backward"]}}  # torch.autograd.grad
    for given in (make, lambda rank, step: {**make(rank, step, None), **by_hand}):
        assert found(given) == ["DDP504 [0, 1, 2] 7"]
        (finding,) = diagnose(job_of(given)).findings
        assert finding.message.endswith(
            "no model is wrapped in DistributedDataParallel, and nothing else averages them"
        )


@pytest.mark.parametrize(
    ("lines", "wrapped", "cause", "line"),
    [
        (LINES, 0, "no forward", LINES["backward"].line),
        (LINES, 1, "autograd.grad", STEP.line),
        ({"grad": LINES["forward"]}, 0, "autograd.grad", LINES["forward"].line),
    ],
)
def test_a_backward_without_a_forward_of_the_wrapper_is_told_from_autograd_grad(
    lines: dict[str, Frame], wrapped: int, cause: str, line: int
) -> None:
    """`model.module.features(x)` calls no forward that anybody follows."""

    def make(rank: int, _step: int) -> dict[str, Any]:
        own = Gradient(digest=f"g{rank}", reduced=1.0 + rank, local=None, count=0, standing="reduced")
        return {"gradients": {"w": own}, "lines": lines, "wrapped": wrapped}

    (finding,) = diagnose(job_of(make)).findings
    assert (finding.code, finding.measured["cause"], finding.where[0].line) == ("DDP504", cause, line)


@pytest.mark.parametrize(("seen_on", "cause", "line"), [(3, "bypassed", 42), (2, "no forward", LINES["backward"].line)])
def test_a_later_call_of_a_part_past_the_wrapper_is_shown_where_all_ranks_made_it(
    seen_on: int, cause: str, line: int
) -> None:
    call = Frame(file="train.py", line=42, function="compute_loss")

    def make(rank: int, step: int) -> dict[str, Any]:
        own = Gradient(digest=f"g{rank}", reduced=1.0 + rank, local=None, count=0, standing="reduced")
        return {"gradients": {"w": own}, "wrapped": 0, "bypassed": {"": call} if step == 1 and rank < seen_on else {}}

    first = diagnose(job_of(make)).findings[0]
    assert (first.measured["step"], first.measured["cause"], first.where[0].line) == (0, cause, line)


@pytest.mark.parametrize("known_on", [3, 2, 0])
def test_the_line_of_a_parameter_outside_the_wrapper_is_called_what_it_is(known_on: int) -> None:
    made = Frame(file="train.py", line=11, function="__init__")

    def make(rank: int, _step: int) -> dict[str, Any]:
        own = Gradient(digest=f"g{rank}", reduced=1.0, local=1.0, count=1, standing="outside")
        return {"gradients": {"w": own}, "origins": {"w": made} if rank < known_on else {}}

    first = diagnose(job_of(make)).findings[0]
    assert first.code == "DDP518"
    assert {place.note for place in first.where} == {
        "makes the parameter or its optimizer" if known_on == 3 else "the optimizer step"
    }


def test_a_gradient_that_is_not_finite_points_to_the_backward_or_to_the_input() -> None:
    def of_one(rank: int, step: int) -> dict[str, Any]:
        return {"gradients": gradient(float("nan") if (rank, step) == (1, 2) else 1.0)}

    assert found(of_one)[0] == "DDP517 [1] 6"
    assert found(lambda rank, step: {**of_one(rank, step), "finite": (rank, step) != (1, 2)})[0] == "DDP517 [1] 5"


@pytest.mark.parametrize(
    ("not_finite", "cause", "says"),
    [
        (("w",), "weights", "before the forward 1 of 3 parameters (w) were not finite on rank 1"),
        ((), "loss", "before the forward 2 of 3 parameters (w, frozen) differed between ranks"),
        (("v",), "loss", "before the forward 2 of 3 parameters (w, frozen) differed between ranks"),
    ],
)
def test_a_batch_that_divides_by_zero_may_meet_weights_that_differ(
    not_finite: tuple[str, ...], cause: str, says: str
) -> None:
    def make(rank: int, step: int) -> dict[str, Any]:
        if step < 3:
            return {}
        late = {"step": 4, "forwards": 5}  # a step was not audited, in which weights were written
        sick: dict[str, Any] = {"gradients": gradient(float("nan")), "loss": float("nan"), "weights": "other", **late}
        return {**sick, "not_finite": not_finite} if rank == 1 else {"gradients": gradient(1.0), "loss": 1.0, **late}

    equal = {"w": "0", "frozen": "0", "v": "0"}
    tables = {"w": Table(digests=equal), "other": Table(digests={**equal, "w": "1", "frozen": "1"})}
    report = diagnose(job_of(make, tables=[tables] * 3))
    (finding,) = (one for one in report.findings if one.code == "DDP517")
    assert finding.measured["cause"] == cause
    assert finding.message.startswith(
        "at step 4 of 5, a loss and 1 of 1 local gradients (w) are not finite on rank 1 only"
    )
    assert finding.message.endswith(says)
    assert ("batch is not the cause" in (finding.remedy or "")) is (cause == "weights")


@pytest.mark.parametrize("finite", [True, False])
def test_numbers_that_follow_from_weights_written_on_the_same_rank_are_not_put_down_to_the_batch(
    *, finite: bool
) -> None:
    """Frozen weights that became infinite, or huge ones: the input alone is a cause beside them."""

    def make(rank: int, step: int) -> dict[str, Any]:
        if (rank, step) != (1, 2):
            return {"gradients": gradient(1.0), "loss": 1.0}
        return {"gradients": gradient(float("inf")), "loss": float("inf"), "weights": "other", "finite": finite}

    tables = {key: Table(digests={"w": key}) for key in ("w", "other")}
    codes = [one.code for one in diagnose(job_of(make, tables=[tables] * 3)).findings]
    assert codes == (["DDP509"] if finite else ["DDP509", "DDP517"])


@pytest.mark.parametrize(("hook", "line", "note"), [(STEP, 7, "registers the hook"), (None, 6, "the backward")])
def test_a_sum_that_is_not_divided_points_to_the_hook_that_makes_it(hook: Frame | None, line: int, note: str) -> None:
    def make(rank: int, _step: int) -> dict[str, Any]:
        summed = Gradient(digest="g", reduced=6.0, local=1.0 + rank, count=1, standing="reduced")
        return {"gradients": {"w": summed}, "comm_hook": hook}

    (finding,) = diagnose(job_of(make)).findings
    assert (finding.code, finding.where[0].line, finding.where[0].note) == ("DDP521", line, note)


def test_a_gradient_that_overflows_under_a_scaler_is_no_finding() -> None:
    def make(rank: int, step: int) -> dict[str, Any]:
        return {"gradients": gradient(float("inf") if (rank, step) == (1, 2) else 1.0), "scale": 65536.0}

    assert found(make) == []


def at_left_out(standings: dict[str, str], *, received: dict[str, tuple[str, str]]) -> list[str]:
    """Findings where a GradScaler leaves step 1 out on both ranks, whose optimizer has gradients of `standings`.

    `received` are the fingerprints on both ranks when the backward returned.
    """
    infinite = float("inf")
    steps = []
    for rank in range(2):
        gradients = {
            name: Gradient(digest=received[name][rank], reduced=infinite, local=infinite, count=1, standing=standing)
            for name, standing in standings.items()
        }
        reduced = {name: both[rank] for name, both in received.items()}
        integrity = Integrity(begin=0, state=0, end=0, reduced=reduced)
        step = {"step": 1, "forwards": 2, "since": 0, "weights": "w", "after": "w", "lines": LINES, "line": STEP}
        steps.append(StepSeen(**step, left_out=True, scale=8.0, gradients=gradients, integrity=integrity))
    overflow = OverflowSeen(step=1, forwards=2, scale=8.0, line=STEP)
    return found(
        lambda *_: {"scale": 8.0}, nproc=2, steps=1, left_out=[(one,) for one in steps], overflows=[(overflow,)] * 2
    )


def test_a_step_left_out_shows_only_what_its_optimizer_gets_from_ddp() -> None:
    generator = {f"w{number}": "reduced" for number in range(5)}
    equal = dict.fromkeys(generator, ("g", "g"))
    assert (
        at_left_out(generator, received={**equal, "model2:weight": ("a", "b")}) == []
    )  # the discriminator, in no_sync
    assert at_left_out({**generator, "own": "ignored"}, received={**equal, "own": ("a", "b")}) == []
    assert at_left_out(generator, received={**equal, "w3": ("a", "b")}) == ["DDP526 [0, 1] 6"]
    of_others = {f"model2:w{number}": ("a", "b") for number in range(9)}
    assert at_left_out(generator, received={**equal, **of_others, "w3": ("a", "b")}) == ["DDP526 [0, 1] 6"]


def test_who_added_noise_is_told_where_all_clip() -> None:
    def make(clipped: dict[int, float], noise: float) -> Make:
        def step(rank: int, _step: int) -> dict[str, Any]:
            changed = [clipped[rank] * mean * (1 + noise * (rank == 0) * place) for place, mean in enumerate(MEANS)]
            gradients = {
                f"w{place}": Gradient(digest=f"{value:.9g}", reduced=value, local=mean, count=1, standing="reduced")
                for place, (value, mean) in enumerate(zip(changed, MEANS, strict=True))
            }
            return {"gradients": gradients}

        return step

    alike = {0: 0.7, 1: 0.7, 2: 0.7}
    assert found(make(alike, 1e-3), nproc=3)[0] == "DDP505 [0] 7"
    assert found(make(alike, 1e-3), nproc=2)[0] == "DDP505 [0] 7"
    assert found(make({0: 0.7, 1: 1.0}, 0), nproc=2)[0] == "DDP505 [0] 7"
    assert found(make({0: 0.7, 1: 0.6}, 0), nproc=2)[0] == "DDP505 [0, 1] 7"
    assert found(make({0: 0.7, 1: 1.0, 2: 0.7}, 0), nproc=3)[0] == "DDP505 [1] 7"  # most ranks clip alike
    assert found(make({0: 0.7, 1: 1.0, 2: 0.6}, 0), nproc=3)[0] == "DDP505 [0, 2] 7"  # each by a norm of its own
    assert found(make({0: 1.0, 1: 1.0, 2: 0.7}, 0), nproc=3)[0] == "DDP505 [2] 7"
    assert found(make(alike, 0), nproc=3) == []


MEANS = (1.0, -2.0, 0.5, 3.0)


def test_rows_that_every_rank_masks_in_its_own_way_were_reduced() -> None:
    def make(masked: float) -> Make:
        def step(rank: int, _step: int) -> dict[str, Any]:
            def of(local: float, reduced: float, digest: str) -> Gradient:
                return Gradient(digest=digest, reduced=reduced, local=local, count=1, standing="reduced")

            return {
                "wrapped": 1, "synchronised": True,
                "gradients": {"body": of(rank, 1.0, "g"), "emb": of(1.0 + rank, masked or 1.0 + rank, f"g{rank}")},
            }  # fmt: skip

        return step

    assert found(make(0.3)) == ["DDP505 [0, 1, 2] 7"]
    assert found(make(0)) == ["DDP504 [0, 1, 2] 7"]


def test_a_hook_that_averages_inside_groups_of_ranks_is_named() -> None:
    """After post_localSGD_hook has begun, and where no averager runs: pairs of ranks train on, each pair alone."""
    hook = Frame(file="train.py", line=3, function="build")

    def in_pairs(rank: int, _: int) -> dict[str, Any]:
        gradient = Gradient(
            digest=f"g{rank // 2}", reduced=1.0 + 2 * (rank // 2), local=0.5 + rank, count=1, standing="reduced"
        )
        return {"gradients": {"a": gradient}, "comm_hook": hook, "hook_of_torch": True, "wrapped": 1}

    (finding,) = diagnose(job_of(in_pairs, nproc=4, steps=1)).findings
    assert (finding.code, finding.ranks, finding.where[0].line) == ("DDP504", (0, 1, 2, 3), 3)
    assert finding.measured["cause"] == "by hook"


PART_HALVED = {"a": 0.5, "b": 0.5, "c": 1.0}


def reduced_by_hook(factors: Callable[[int], dict[str, float]], writes: int = 0) -> Make:
    """Steps whose gradients a communication hook of the user's own made: the mean of the local ones times a factor by name."""

    def make(_: int, step: int) -> dict[str, Any]:
        gradients = {
            name: Gradient(
                digest=f"g{step}", reduced=factor * (step + 1), local=step + 1.0, count=1, standing="reduced"
            )
            for name, factor in factors(step).items()
        }
        integrity = Integrity(wrapped=0, begin=0, state=0, end=0, gradient_writes=writes)
        hook = Frame(file="train.py", line=3, function="build")
        return {"gradients": gradients, "comm_hook": hook, "integrity": integrity}

    return make


def test_a_hook_that_scales_some_buckets_otherwise_is_named() -> None:
    """Its branch for small buckets divides by another number; buckets are as large as that from the second step on."""
    sick = job_of(reduced_by_hook(lambda step: PART_HALVED if step else dict.fromkeys("abc", 1.0)), steps=5)
    (finding,) = diagnose(sick).findings
    assert (finding.code, finding.measured["step"], finding.measured["tensors"]) == ("DDP521", 1, ["a", "b"])
    assert finding.where[0].line == 3


@pytest.mark.parametrize(
    ("factors", "writes"),
    [
        (lambda _: PART_HALVED, 3),  # layers whose gradients are scaled after the backward, on purpose
        (lambda step: {"a": 0.5 + step / 50, "b": 1.0}, 0),  # a hook that compresses
        (lambda _: dict.fromkeys("abc", 0.3), 0),  # one that scales all of them alike
    ],
)
def test_what_may_be_meant_is_no_fault_of_the_hook(factors: Callable[[int], dict[str, float]], writes: int) -> None:
    assert found(reduced_by_hook(factors, writes), steps=5) == []


def test_a_parameter_that_one_rank_replaces_explains_its_other_gradients() -> None:
    """Rank 1 gives its tied decoder a weight of its own: its clipping sees one gradient more, and scales all otherwise."""
    untied = Frame(file="train.py", line=3, function="export")
    held = {"w": Table(digests={"embed": "0"}), "own": Table(digests={"embed": "0", "decoder": "1"})}

    def unties(rank: int, step: int) -> dict[str, Any]:
        own = rank == 1 and step == 1
        clipped = Gradient(digest=f"g{own}", reduced=0.8 if own else 1.0, local=1.0, count=1, standing="reduced")
        weights, after = "own" if own else "w", "own" if own else "w"
        origins = {"decoder": untied} if own else {}
        return {
            "weights": weights, "after": after, "gradients": {"embed": clipped}, "origins": origins, "wrapped": 1,
        }  # fmt: skip

    finding, *others = diagnose(job_of(unties, steps=2, tables=[held] * 3)).findings
    assert (finding.code, finding.ranks, finding.where[0].line) == ("DDP509", (1,), 3)
    assert "DDP505" not in {other.code for other in others}
    assert finding.measured["tensors"] == ["decoder"]
