"""What the HTML report says, without a browser."""

from __future__ import annotations

import re

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence
from ddpdoctor.render import html
from tests.flight_records import Did, flights
from tests.render.html import PAGES, hang, network


def page(evidence: Evidence) -> str:
    return html.render(diagnose(evidence), evidence, title="ddpdoctor diagnose")


def text(evidence: Evidence) -> str:
    """The text of a page without its tags and its style."""
    body = re.sub(r"<style>.*?</style>", "", page(evidence), flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", " ", body).split())


def test_a_hang_names_the_rank_its_line_and_what_was_run() -> None:
    said = text(hang())
    assert "rank 2 called broadcast #40" in said
    assert "The ranks diverged at #40: ranks 0-1,3 called all_reduce; rank 2 called broadcast." in said
    assert "▶ rank 2" in said
    assert "▶ rank 1" not in said
    assert "torchrun --nproc-per-node 4 train.py" in said
    assert "2027-01-15 08:07:03 UTC, after 7 min 3 s" in said
    assert "88 dist.broadcast(loss, 2)" in said
    assert "ranks 0-3: waits in a collective (backward)" in said


def test_calls_of_one_name_are_told_apart_by_their_lines() -> None:
    """Regression: ranks 0-3 "called all_reduce", and rank 0 stood "in all_reduce #40", which it "never calls"."""
    said = text(hang(extra=Did("all_reduce", line=88, function="validate", sizes=((1,),))))
    assert (
        "diverged at #40: ranks 0-1,3 called all_reduce at train.py:61 in train_step; rank 2 called all_reduce at train.py:88 in "
        "validate."
    ) in said
    assert said.count("another all_reduce #40") == 1


def test_text_of_a_job_is_no_markup() -> None:
    written = page(hang())
    assert "<script" not in written
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in written
    assert "# &lt;b&gt;&amp;amp;&lt;/b&gt;" in written


def test_characters_that_reorder_text_are_left_out() -> None:
    evidence = flights([Did("all_reduce", function="train\u202estep\x1b[31m")], [Did("all_reduce")])
    assert not re.search("[\u202e\x1b]", page(evidence))


def test_a_healthy_job_has_no_mark() -> None:
    healthy = flights(*[[Did("all_reduce")] * 30] * 4)
    said = text(healthy)
    assert said.count("No findings") > 0
    assert "▶" not in said
    assert "diverged" not in said


def test_ranks_that_did_the_same_share_a_line() -> None:
    said = text(hang(ranks=64, odd=37))
    assert "ranks 0-36,38-63" in said
    assert "▶ rank 37" in said
    assert said.count("▶ rank") == 1


def test_64_ranks_fit_in_two_megabytes() -> None:
    assert len(page(hang(ranks=64, odd=37, calls=2000))) < 2_000_000
    assert len(page(network(64))) < 2_000_000


def test_the_links_stand_in_rows_by_source() -> None:
    said = text(network())
    assert "6 nodes, 30 directions tested in 5 rounds: 5 failed, 9 slow; the median is 23.2 Gbit/s." in said
    assert "node-0 to node-3: filtered: timed out" in said


def test_a_benchmark_has_its_fit_and_the_published_figure() -> None:
    said = text(PAGES["bench"])
    assert "published: 480 GB/s busbw" in said
    assert "fit: latency 20.0 us" in said
    assert "Bus bandwidth over size, at most 453 GB/s." in said


def test_curves_of_the_reference_job() -> None:
    assert "Test accuracy by epoch, from 50.0 % to 90.0 %." in text(PAGES["training"])


def test_the_checks_say_what_they_looked_at() -> None:
    assert "flight-recorder dump of 4 ranks" in text(hang())


@pytest.mark.parametrize("name", PAGES)
def test_nothing_is_loaded_from_elsewhere(name: str) -> None:
    written = page(PAGES[name])
    assert not re.findall(r"(?:src|href)=\"(?!#|data:|https://[^\"]*/findings/)[^\"]*\"", written)
    assert not re.findall(r"url\(|@import|<script|<iframe", written)
