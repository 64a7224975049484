"""What people type leads to the right finding."""

from __future__ import annotations

import pytest

from ddpdoctor.catalogue import all_rules
from ddpdoctor.symptoms.index import sign_of
from ddpdoctor.symptoms.table import SYMPTOMS
from ddpdoctor.symptoms.words import words_of
from ddpdoctor.workflows.explain import explain_text
from tests.symptoms.asked import ASKED, MEANINGLESS

EXCERPT = """\
[rank2]: Traceback (most recent call last):
[rank2]:   File "/home/kim/fit.py", line 31, in <module>
[rank2]:     fit()
[rank2]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 96.00 MiB.
[rank0]: RuntimeError: Connection closed by peer [10.2.0.3]:41022
"""
FIRST_CHOICE = 0.95  # share of the texts whose first finding is the expected one
AMONG_THE_FIRST = 3
KNOWN = {"DDP" + number for number in ("2", "3", "4", "5", "6")}


@pytest.fixture(scope="module")
def answers() -> list[tuple[str, str, list[str]]]:
    """Each text, the expected finding, and the findings that it gives."""
    return [(text, code, [match.rule.code for match in explain_text(text)]) for text, code in ASKED]


def test_the_first_choice_is_right(answers: list[tuple[str, str, list[str]]]) -> None:
    missed = [(text, code, found[:3]) for text, code, found in answers if found[:1] != [code]]
    assert len(ASKED) >= 60
    assert len(missed) <= (1 - FIRST_CHOICE) * len(ASKED), missed


def test_the_expected_finding_is_among_the_first_three(answers: list[tuple[str, str, list[str]]]) -> None:
    assert not [(text, code, found) for text, code, found in answers if code not in found[:AMONG_THE_FIRST]]


@pytest.mark.parametrize("text", MEANINGLESS)
def test_a_text_of_something_else_means_nothing(text: str) -> None:
    assert explain_text(text) == ()


def test_case_and_spelling_do_not_matter() -> None:
    typed = ("hangs in the first step", "HANGS IN FIRST STEP", "hang in frist step")
    first = {explain_text(text)[0].rule.code for text in typed}
    assert len(first) == 1


def test_what_the_log_shows_comes_first_with_its_own_advice() -> None:
    first = explain_text(EXCERPT)[0]
    assert first.rule.code == "DDP407"
    assert "rank 2" in first.seen_as


def test_every_symptom_names_findings_that_exist_and_no_two_are_the_same() -> None:
    codes = {rule.code for rule in all_rules()}
    assert not [symptom.text for symptom in SYMPTOMS if {*symptom.codes} - codes or not symptom.codes]
    texts = [
        text for symptom in SYMPTOMS for text in {frozenset(words_of(one)) for one in (symptom.text, *symptom.also)}
    ]
    assert len({*texts}) == len(texts), sorted(map(sorted, (text for text in texts if texts.count(text) > 1)))


def test_every_finding_of_a_running_job_can_be_told_from_others() -> None:
    """A finding that a symptom leads to, and that `env` or `lint` does not find alone, says what shows it."""
    named = {code for symptom in SYMPTOMS for code in symptom.codes}
    bare = [rule.code for rule in all_rules() if rule.code in named and rule.code[:4] in KNOWN and not rule.shown_by]
    assert not bare
    assert all(sign_of(rule) for rule in all_rules())


def test_an_error_text_with_another_number_is_not_meant() -> None:
    """SIGTERM (15) is not SIGHUP (1), though the words are the same."""
    assert [match.rule.code for match in explain_text("Received 15 death signal")] == ["DDP403", "DDP401"]
    assert explain_text("Received 1 death signal")[0].rule.code == "DDP419"
