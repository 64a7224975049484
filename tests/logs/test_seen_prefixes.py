"""A prefix is taken off where the log has shown what it is; a word of an error and a number of several ranks are no prefix."""

from __future__ import annotations

import pytest

from ddpdoctor.logs.seen_prefixes import SeenPrefixes


@pytest.mark.parametrize(
    "label", ["node03: ", "worker-1  | ", "[pod/train-0/pytorch] ", "job.n1 [stderr] ", "10.0.0.4: "]
)
def test_a_label_that_was_shown_is_taken_off_and_the_indentation_stays(label: str) -> None:
    seen = SeenPrefixes()
    assert seen.without_label(f"{label}  x = 1") == f"{label}  x = 1"
    seen.learn_label(label, "[rank1]: Traceback (most recent call last):")
    assert seen.without_label(f"{label.rstrip()}   x = 1") == "  x = 1"
    assert seen.without_label("node04: ready") == "node04: ready"


@pytest.mark.parametrize("word", ["RuntimeError: ", "ERROR: ", "Oops2Error: "])
def test_a_word_of_an_error_is_no_label(word: str) -> None:
    seen = SeenPrefixes()
    seen.learn_label(word, '  File "train.py", line 3, in f')
    assert seen.without_label(f"{word}boom") == f"{word}boom"


def test_a_logger_that_wrote_a_traceback_writes_nothing_else_from_there() -> None:
    seen = SeenPrefixes()
    seen.learn_logger("ERROR 06-02 10:11:12 worker.py:77] ")
    assert seen.without_logger("ERROR 06-02 10:11:13 worker.py:77] Last error:") == ("Last error:", "06-02 10:11:13")
    other = "ERROR 06-02 10:11:13 worker.py:90] restarting"
    assert seen.without_logger(other) == (other, "")


def test_the_number_of_a_tee_is_the_rank_that_stood_behind_it() -> None:
    seen = SeenPrefixes()
    assert seen.rank_of(1) == 1
    seen.learn_rank(1, 5)
    assert seen.rank_of(1) == 5
    seen.learn_rank(1, 9)  # of another node
    assert seen.rank_of(1) is None


def test_a_word_without_a_number_is_a_label_before_a_frame_and_not_before_a_head() -> None:
    seen = SeenPrefixes()
    seen.learn_label("localhost: ", "Traceback (most recent call last):")
    assert seen.without_label("localhost: x = 1") == "localhost: x = 1"
    seen.learn_label("localhost: ", '  File "train.py", line 3, in f')
    assert seen.without_label("localhost:     x = 1") == "    x = 1"


def test_what_stands_before_a_head_and_its_frame_is_a_prefix_whose_numbers_may_change() -> None:
    seen = SeenPrefixes()
    first, second = "E 08:20:15.220Z [task: pool1-0] ", "E 08:20:16.004Z [task: pool0-3] "
    head = f"{first}[rank3]: Traceback (most recent call last):"
    assert seen.without_prefix(head) == (head, "")
    assert seen.without_prefix(f'{first}[rank3]:   File "t.py", line 3') == ('[rank3]:   File "t.py", line 3', first)
    assert seen.without_prefix(f"{second}KeyError: 'a'") == ("KeyError: 'a'", second)


def test_a_progress_bar_before_a_head_is_no_prefix() -> None:
    seen = SeenPrefixes()
    bar = "  3%|3   | 30/1000 [00:11<05:11]"
    seen.without_prefix(f"{bar}Traceback (most recent call last):")
    seen.without_prefix('  File "train.py", line 3, in f')
    assert seen.without_prefix(f"{bar} loss 2.1") == (f"{bar} loss 2.1", "")
