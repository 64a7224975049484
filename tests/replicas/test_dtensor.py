"""verify_sync of FSDP2, HSDP and tensor parallel models on four ranks: copies of one part are compared, the rest is skipped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ddpdoctor.launch.ranks import run_ranks

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
Answers = dict[str, list[Any]]
PAIR = "; no majority: either side may be at fault"


@pytest.fixture(scope="module")
def answers() -> Answers:
    ran = run_ranks(Path(__file__).with_name("meshed_ranks.py"), nproc=4, deadline_seconds=500)
    assert ran.ended.code == 0, ran.ended.stderr
    return {result["name"]: result["answers"] for result in ran.results}


@pytest.mark.parametrize("name", ["hsdp_from_one_seed", "hsdp_trained"])
def test_equal_copies_get_silence(answers: Answers, name: str) -> None:
    assert answers[name] == [{"findings": [], "undecided": [], "notes": []}] * 4


def test_hsdp_does_not_synchronise_initial_weights_and_that_is_said(answers: Answers) -> None:
    for answer in answers["hsdp_from_a_seed_a_rank"]:
        (finding,) = answer["findings"]
        assert (finding["code"], finding["ranks"]) == ("DDP502", [0, 1, 2, 3])
        assert finding["message"].startswith("0.weight[")
        assert finding["message"].endswith("4 parameters differ" + PAIR)
        assert "fully_shard" in finding["remedy"]


def test_the_element_is_that_of_the_whole_tensor(answers: Answers) -> None:
    """Ranks 1 and 3 hold rows 8 to 15."""
    for answer in answers["hsdp_one_element_of_a_late_shard"]:
        (finding,) = answer["findings"]
        assert (finding["code"], finding["ranks"], finding["index"]) == ("DDP503", [1, 3], [9, 2])


def test_optimizer_state_on_a_mesh_is_compared(answers: Answers) -> None:
    for answer in answers["hsdp_momentum"]:
        (finding,) = answer["findings"]
        assert (finding["code"], finding["ranks"], finding["index"]) == ("DDP507", [0, 2], [0, 0])
        assert finding["message"].startswith("2.weight.exp_avg[0, 0] is ")


def test_a_fully_sharded_model_is_said_to_be_skipped(answers: Answers) -> None:
    note = "6 of 6 tensors are fully sharded: no two ranks hold the same part, so they were skipped"
    assert answers["fully_sharded"] == [{"findings": [], "undecided": [], "notes": [note]}] * 4


def test_the_rank_whose_copy_of_a_layer_norm_is_odd_is_named(answers: Answers) -> None:
    for answer in answers["tensor_parallel_layer_norm"]:
        (finding,) = answer["findings"]
        assert (finding["code"], finding["ranks"]) == ("DDP502", [2])
        assert finding["message"] == "1.weight[5] is 1 on ranks 0-1,3 and 1.5 on rank 2, a difference of 0.5"


def test_another_placement_is_another_structure(answers: Answers) -> None:
    for answer in answers["another_placement_on_one_rank"]:
        (finding,) = answer["findings"]
        assert (finding["code"], finding["ranks"]) == ("DDP501", [1])
