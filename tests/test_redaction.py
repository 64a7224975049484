"""No secret stays in evidence, what is none stays readable, and nothing is redacted twice."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddpdoctor import redaction
from ddpdoctor.evidence import Evidence, RankFacts
from ddpdoctor.evidence.training_trace import Track
from ddpdoctor.redaction import redact
from ddpdoctor.secrets import redact_text


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("HF_TOKEN=hf_abcdefghijklmnopqrst0123", "HF_TOKEN=<redacted>"),
        ("train.py --wandb-api-key 0123456789abcdef --lr 0.1", "train.py --wandb-api-key <redacted> --lr 0.1"),
        ("https://user:hunter2@proxy:8080/x", "https://user:<redacted>@proxy:8080/x"),
        ("Authorization: Bearer abcdef0123456789", "Authorization: Bearer <redacted>"),
        ("AWS AKIAABCDEFGHIJKLMNOP", "AWS <redacted>"),
        ('{"password": "a b"}', '{"password": "<redacted>"}'),
    ],
)
def test_secrets_do_not_leave(text: str, kept: str) -> None:
    assert redact_text(text) == kept


@pytest.mark.parametrize(
    "text",
    [
        "NCCL_SOCKET_IFNAME=eth0",
        "tokenizer.py:12 in encode",
        "rank 0 called all_reduce #41 (train.py:88)",
        "MASTER_ADDR=10.0.0.1 MASTER_PORT=29500",
        "keys: /default_pg/0//cpu//0/2",
        "basic block",
    ],
)
def test_what_is_no_secret_stays_readable(text: str) -> None:
    assert redact_text(text) == text


def test_a_name_and_its_secret_in_two_texts_or_in_a_key_do_not_leave() -> None:
    arguments = ["train.py", "--db-password", "correct-horse", "--lr", "0.1"]
    text = Evidence(notes=tuple(arguments), meta={"https://me:correct-horse@host/": "x"})
    clean = redact(text)
    assert clean.notes == ("train.py", "--db-password", "<redacted>", "--lr", "0.1")
    assert clean.meta == {"https://me:<redacted>@host/": "x"}
    assert redact(Evidence(notes=("one", "two"))).notes == ("one", "two")


def test_what_was_redacted_is_redacted_once_and_what_is_new_beside_it_is_redacted_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The report, its page and the case are made of the same facts."""
    track = Track(method="sum", every=1, ignored_buffers=frozenset({"password=correct-horse"}))
    job = Evidence(ranks=(RankFacts(rank=0, host="node-a", facts=(track,)),))
    clean = redact(job)
    (rank,) = clean.per_rank(Track) or ()
    assert rank.value.ignored_buffers == {"password=<redacted>"}
    redacted: list[str] = []

    def note(text: str) -> str:
        redacted.append(text)
        return text.replace("correct-horse", "x")

    monkeypatch.setattr(redaction, "redact_text", note)

    assert redact(job).ranks[0].facts[0] is redact(clean).ranks[0].facts[0] is clean.ranks[0].facts[0]
    assert set(redacted) == {"node-a"}
    assert redact(replace(job, notes=("password=correct-horse",))).notes == ("password=x",)


@given(st.text())
def test_redaction_changes_nothing_the_second_time(text: str) -> None:
    once = redact_text(text)
    assert redact_text(once) == once
