"""No secret leaves in a case or a report, whatever its shape; what is none stays readable."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddpdoctor.secrets import looks_random, names_a_secret, redact_text
from tests.secret_shapes import HARMLESS, SHAPES
from tests.secret_surroundings import LOOK_ALIKES, SURROUNDED


def test_there_are_two_hundred_shapes() -> None:
    assert len(SHAPES) >= 190
    assert all(secret in text for text, secret in SHAPES)


def test_no_shape_leaks() -> None:
    leaks = {text: redact_text(text) for text, secret in SHAPES if secret in redact_text(text)}
    assert not leaks


def test_no_surroundings_leak() -> None:
    leaks = {text: redact_text(text) for text, secret in SURROUNDED if leaks_of(text, secret) in redact_text(text)}
    assert len(SURROUNDED) > 100
    assert not leaks


def leaks_of(text: str, secret: str) -> str:
    """What must not be left: `secret`, or, of one that is drawn where it stands, its first characters."""
    before = secret.removesuffix("x")
    if secret in text:
        return secret
    assert before in text
    return text.partition(before)[2][:12]


@pytest.mark.parametrize("text", [*HARMLESS, *LOOK_ALIKES])
def test_what_is_no_secret_stays_as_it_is(text: str) -> None:
    assert redact_text(text) == text


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("train.py --wandb-api-key 0123456789abcdef --lr 0.1", "train.py --wandb-api-key <redacted> --lr 0.1"),
        ("https://user:hunter2/x@y@proxy:8080/x", "https://user:<redacted>@proxy:8080/x"),
        ('{"password": "a b", "user": "me"}', '{"password": "<redacted>", "user": "me"}'),
        ('{\\"password\\": \\"a b\\", \\"n\\": 1}', '{\\"password\\": \\"<redacted>\\", \\"n\\": 1}'),
        ("MYSQL_PWD=hunter2 ./run", "MYSQL_PWD=<redacted> ./run"),
    ],
)
def test_only_the_secret_goes(text: str, left: str) -> None:
    assert redact_text(text) == left


@given(st.one_of(st.text(), st.sampled_from([text for text, _ in [*SHAPES, *SURROUNDED]])))
def test_the_second_time_changes_nothing(text: str) -> None:
    once = redact_text(text)
    assert redact_text(once) == once


def test_names() -> None:
    assert all(map(names_a_secret, ("password", "HF_TOKEN", "MYSQL_PWD", "DB_PASS", "x-api-key", "client_secret")))
    assert not any(map(names_a_secret, ("PWD", "rank", "keys", "passes", "weights", "hostname")))


def test_random_texts_are_told_from_words() -> None:
    assert looks_random("aB3dE5gH7jK9mN1pQ3sT")
    assert not looks_random("DistributedDataParallelStrategy2024")
    assert not looks_random("/usr/local/lib/python3.11/site-packages")


def test_a_long_line_costs_what_its_length_costs() -> None:
    """A million characters in seconds of this process, not minutes."""
    start = time.process_time()
    redact_text("password=" + "a1B" * 300_000)
    assert time.process_time() - start < 30
