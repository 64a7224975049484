"""verify_sync inside three ranks: one launch, many sick models; every rank gives the same answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ddpdoctor.launch.ranks import run_ranks

pytestmark = pytest.mark.timeout(600)
Answers = dict[str, list[Any]]


@pytest.fixture(scope="module")
def answers() -> Answers:
    ran = run_ranks(Path(__file__).with_name("verify_ranks.py"), nproc=3, deadline_seconds=500)
    assert ran.ended.code == 0, ran.ended.stderr
    return {result["name"]: result["answers"] for result in ran.results}


SAID = {
    "one_element": (
        "DDP503",
        [1],
        "0.weight[5, 2] is 0.0625 on ranks 0,2 and 0.062501 on rank 1, a difference of 9.54e-07",
    ),
    "rank_zero_is_odd": (
        "DDP503",
        [0],
        "2.bias[0] is 0.25 on ranks 1-2 and 0.5 on rank 0, a difference of 0.25",
    ),
    "sign_of_zero": ("DDP502", [2], "0.weight[0, 0] is 0 on ranks 0-1 and -0 on rank 2: only the sign of zero differs"),
    "nan_payload": (
        "DDP502",
        [2],
        "0.weight[0, 0] is nan (0x7fc00000) on ranks 0-1 and nan (0x7fc00001) on rank 2: only the NaN payload differs",
    ),
    "a_tensor_is_missing": ("DDP501", [1], "parameter 0.bias is present on ranks 0,2 and absent on rank 1"),
    "another_dtype": (
        "DDP501",
        [1],
        "parameter 0.weight has dtype float32 on ranks 0,2 and float64 on rank 1; 8 tensors differ in structure",
    ),
    "frozen_on_one": ("DDP501", [2], "parameter 0.weight has requires_grad True on ranks 0-1 and False on rank 2"),
    "another_order": (
        "DDP501",
        [0],
        (
            "parameters are registered in a different order: a.weight at position 0 on ranks 1-2 and b.weight at position 0 "
            "on rank 0"
        ),
    ),
    "another_stride": (
        "DDP501",
        [1],
        "parameter weight has strides [27, 9, 3, 1] on ranks 0,2 and [27, 1, 9, 3] on rank 1",
    ),
    "momentum_differs": (
        "DDP507",
        [2],
        "0.weight.exp_avg[3, 1] is 0.25 on ranks 0-1 and 0.75 on rank 2, a difference of 0.5",
    ),
    "state_on_some": (
        "DDP507",
        [0],
        "0.weight.exp_avg is present on ranks 1-2 and absent on rank 0; 18 state tensors differ in structure",
    ),
    "buffers": ("DDP508", [1], "1.running_mean[0] is 0.03 on ranks 0,2 and 1.03 on rank 1, a difference of 1"),
}


@pytest.mark.parametrize("name", SAID)
def test_a_sick_replica_is_named_to_the_element_on_every_rank(answers: Answers, name: str) -> None:
    code, ranks, message = SAID[name]
    for answer in answers[name]:
        first = answer["findings"][0]
        assert (first["code"], first["ranks"], first["message"]) == (code, ranks, message)


def test_buffers_outside_a_forward_are_information(answers: Answers) -> None:
    (finding,) = answers["buffers"][0]["findings"]
    assert finding["severity"] == "info"


@pytest.mark.parametrize("name", ["healthy", "xxhash_is_not_everywhere"])
def test_equal_replicas_get_silence(answers: Answers, name: str) -> None:
    assert answers[name] == [{"findings": [], "undecided": []}] * 3


def test_with_two_ranks_both_sides_are_named(answers: Answers) -> None:
    *pair, outsider = answers["two_ranks_cannot_tell"]
    assert outsider is None
    for answer in pair:
        (finding,) = answer["findings"]
        assert finding["ranks"] == [0, 1]
        assert finding["message"] == (
            "2.bias[0] is 0.5 on rank 0 and 7 on rank 1, a difference of 6.5; no majority: either side may be at fault"
        )


def test_a_rank_that_cannot_read_its_model_leaves_nobody_waiting(answers: Answers) -> None:
    reason = "the replicas could not be compared: rank 1: RuntimeError: no buffers today"
    assert answers["one_rank_cannot_read"] == [{"findings": [], "undecided": [reason]}] * 3


def test_equal_replicas_cost_one_exchange_of_56_bytes(answers: Answers) -> None:
    assert answers["traffic_when_healthy"] == [56] * 3


def test_three_flipped_bits_are_found_among_millions_of_elements(answers: Answers) -> None:
    for found in answers["three_flips_in_many_elements"]:
        assert found["words"] == [3, 1 << 22, (1 << 23) - 2]
        assert found["bits"] == [
            ["0x800000000", "0x0", "0x0"],
            ["0x0", "0x8000000000000000", "0x0"],
            ["0x0", "0x0", "0x4000000000000000"],
        ]
        assert found["complete"]
        assert found["sent"] <= 40 * 1024
