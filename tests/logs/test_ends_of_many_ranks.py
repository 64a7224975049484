"""What srun says of a range of tasks: each rank has its end, at the cost of their number."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from ddpdoctor.evidence.bounds import MOST_RANKS
from ddpdoctor.evidence.ranks import RankExit
from ddpdoctor.logs.job_log import read_logs


def test_the_ends_of_many_tasks_cost_what_their_number_costs(tmp_path: Path) -> None:
    """Each task was once compared with all others: 67 KB of such lines took three minutes."""
    log = tmp_path / "job.log"
    log.write_text("srun: error: n1: tasks 0-49999: Exited with exit code 1\n", encoding="utf-8")
    before = time.process_time()
    assert len(read_logs([log]).ranks) == 50_000
    assert time.process_time() - before < 30.0  # it takes 0.4; comparing all pairs took more than 50


def test_the_tasks_of_a_range_have_one_end(tmp_path: Path) -> None:
    log = tmp_path / "slurm.log"
    log.write_text("srun: error: n1: tasks 0-99: Exited with exit code 1\n", encoding="utf-8")
    ends = [fact for rank in read_logs([log]).ranks for fact in rank.facts]
    assert len(ends) == 100
    assert len({id(end) for end in ends}) == 1


@pytest.mark.parametrize("ranks", ["99999990-99999999", "262140-262150", f"0-{'9' * 18}"])
def test_ranks_that_no_job_has_are_left_out_and_counted(ranks: str, tmp_path: Path) -> None:
    """Regression: an internal error."""
    log = tmp_path / "job.log"
    log.write_text(f"srun: error: n1: tasks {ranks}: Killed\n", encoding="utf-8")
    found = read_logs([log])
    assert all(entry.rank < MOST_RANKS for entry in found.ranks)
    low, high = map(int, ranks.split("-"))
    (note,) = found.notes
    assert note.startswith(f"not used: {high + 1 - low - len(found.ranks):,} of the ranks")


def test_ranges_that_repeat_ranks_hide_no_others(tmp_path: Path) -> None:
    """Regression: each repetition counted as new ranks, and the ranks that failed by themselves were left out."""
    log = tmp_path / "job.log"
    log.write_text(
        "srun: error: n1: tasks 0-511: Terminated\n" * 140
        + "srun: error: n2: tasks 512-1023: Exited with exit code 7\n",
        encoding="utf-8",
    )
    found = read_logs([log])
    exits = found.per_rank(RankExit)
    assert exits is not None
    assert [entry.value.exit_code for entry in exits] == [-15] * 512 + [7] * 512
    assert found.notes == ()


def test_a_rank_of_a_range_that_says_more_is_told_apart_from_the_others(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text(
        "[rank2]: Traceback (most recent call last):\n"
        '[rank2]:   File "/job/train.py", line 9, in <module>\n'
        "[rank2]: KeyError: 'label'\n"
        "srun: error: n1: tasks 0-9: Exited with exit code 1\n"
        "[rank7]: Traceback (most recent call last):\n"
        '[rank7]:   File "/job/train.py", line 3, in <module>\n'
        "[rank7]: ValueError: late\n",
        encoding="utf-8",
    )
    exits = read_logs([log]).per_rank(RankExit)
    assert exits is not None
    assert {entry.value.exit_code for entry in exits} == {1}
    assert len(exits.entries) == 10
    assert {entry.rank: entry.value.error.type for entry in exits if entry.value.error} == {
        2: "KeyError",
        7: "ValueError",
    }
