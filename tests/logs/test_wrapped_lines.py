"""Lines that a terminal broke are whole again, and lines that nobody broke stay as they are."""

from __future__ import annotations

import textwrap

import pytest

from ddpdoctor.logs.wrapped_lines import unwrapped
from tests.posted_logs.scoring import COLLECTION, Truth, score, truths

LOG = """\
[rank0]: Traceback (most recent call last):
[rank0]:   File "/home/ida/projects/segmentation/experiments/city/train_all_models.py", line 88, in <module>
[rank0]:     main(parse_arguments())
[rank0]: FileNotFoundError: [Errno 2] No such file or directory: '/data/city/train/aachen/000012_left_color.png' in shard 12
[rank1]:[E1120 02:11:44.100 ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=8)
"""
EXACT_WHEN_BROKEN = 0.9  # share of the collection


def broken(text: str, width: int) -> list[str]:
    return [line[start : start + width] for line in text.splitlines() for start in range(0, len(line) or 1, width)]


@pytest.mark.parametrize("width", [80, 97, 100])
def test_lines_of_exactly_the_width_are_put_together(width: int) -> None:
    assert [line for _, line in unwrapped(broken(LOG, width))] == LOG.splitlines()


def test_lines_that_were_broken_between_words_are_put_together_with_a_blank() -> None:
    lines = [part for line in LOG.splitlines() for part in (textwrap.wrap(line, 90, drop_whitespace=True) or [""])]
    whole = [line for _, line in unwrapped(lines)]
    assert "FileNotFoundError: [Errno 2] No such file or directory: '/data/city" in whole[3]
    assert whole[3].endswith("in shard 12")


def test_the_word_that_a_launcher_writes_before_each_line_begins_one() -> None:
    prefixed = [f"vision.cn-d003.log [stderr] {line.removeprefix('[rank0]: ')}" for line in LOG.splitlines()]
    prefixed += ["vision.cn-d003.log [stderr]", "vision.cn-d003.log [stderr] the last words of this job"]
    lines = [part for line in prefixed for part in textwrap.wrap(line, 110, drop_whitespace=True)]
    assert len(lines) > len(prefixed)
    assert [line for _, line in unwrapped(lines)] == prefixed


def test_lines_that_were_broken_and_then_quoted_are_put_together() -> None:
    lines = [f"> {part}" for part in broken(LOG, 80)]
    assert [line for _, line in unwrapped(lines)] == LOG.splitlines()


def test_each_line_keeps_the_number_of_its_first_part() -> None:
    assert [index for index, _ in unwrapped(broken(LOG, 80))] == [0, 1, 3, 4, 6]


@pytest.mark.parametrize(
    "lines",
    [
        LOG.splitlines(),
        [
            f"step {step} loss {2.0 - step / 1000:.4f} lr 1.0e-4 tokens per second 10240 grad norm 0.91 memory 61.2 GB"
            for step in range(100, 120)
        ],
        ["=" * 80, "train.py FAILED", "-" * 80, "Failures:", "  <NO_OTHER_FAILURES>"],
        ["epoch 1 done", "", "saving the model", "done"],
        [
            "step 10 loss 2.1 lr 1.0e-4 tokens per second 10240 grad norm 0.91 memory 61.2 GB on gpu 0",
            "Validation follows",
            "ok",
        ],
        [],
    ],
    ids=["whole", "same length", "rulers", "short", "one long line", "empty"],
)
def test_what_nobody_broke_is_left_alone(lines: list[str]) -> None:
    assert [line for _, line in unwrapped(lines)] == lines


@pytest.mark.parametrize("width", [80, 120])
def test_posted_logs_are_read_right_though_a_terminal_broke_them(width: int, tmp_path) -> None:
    asked = truths(COLLECTION)[::4]
    grades = [_grade(truth, width, tmp_path) for truth in asked]
    assert grades.count("exact") >= EXACT_WHEN_BROKEN * len(asked), grades


def _grade(truth: Truth, width: int, folder) -> str:
    file = folder / f"{truth.name}.txt"
    file.parent.mkdir(exist_ok=True)
    file.write_text("\n".join(broken((COLLECTION / f"{truth.name}.txt").read_text(), width)))
    return score(truth, folder).grade
