"""`ddpdoctor.track` in a process group of one rank: what it says, and that it leaves nothing behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import PROGRAM_SECONDS

SILENCE = {"findings": [], "undecided": []}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("alone")
    results = folder / "results.jsonl"
    ended = subprocess.run(
        [sys.executable, Path(__file__).with_name("tracked_ranks.py"), folder / "store"],
        env={**os.environ, "DDPDOCTOR_RESULTS": str(results)}, capture_output=True, text=True,
        timeout=PROGRAM_SECONDS, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    said = [json.loads(line) for line in results.read_text().splitlines()]
    return {one["name"]: one["answers"][0] for one in said}


@pytest.mark.parametrize("block", ["wrapped_before", "wrapped_inside"])
def test_sound_training_gets_silence(answers: dict[str, Any], block: str) -> None:
    assert answers[block] == SILENCE


def test_an_error_in_the_block_goes_on_to_the_caller(answers: dict[str, Any]) -> None:
    assert answers["one_rank_raises"] == "raised"


def test_a_block_without_training_is_undecided(answers: dict[str, Any]) -> None:
    assert answers["nothing_trained"]["undecided"] == ["no optimizer made a step in the tracked block"]


def test_a_block_that_destroys_the_process_group_is_undecided_and_raises_nothing(answers: dict[str, Any]) -> None:
    (why,) = answers["destroys_the_group"]["undecided"]
    assert why.startswith("the job's store could not be reached: Default process group has not been initialized")


def test_a_block_whose_directory_was_removed_is_undecided_and_raises_nothing(answers: dict[str, Any]) -> None:
    undecided = answers["loses_its_directory"]["undecided"]
    assert "the files of the tracker on rank 0 cannot be read: No such file or directory" in undecided


def test_no_hook_is_left_and_no_bit_is_changed(answers: dict[str, Any]) -> None:
    clean = {"patched": [], "global hooks": 0, "module hooks": 0, "gradient hooks": 0, "same bits": True}
    assert answers["leaves_no_hook"] == clean


def test_wrong_use_is_told_with_what_was_given(answers: dict[str, Any]) -> None:
    not_wrapped, every, too_early = answers["wrong_use"]
    assert "was given a Linear" in not_wrapped
    assert "track(every=0)" in every
    assert "has not ended" in too_early
