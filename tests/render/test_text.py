"""What a person reads at a terminal."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from ddpdoctor.model import Report
from ddpdoctor.render import text
from ddpdoctor.render.screen import Screen
from tests.render import FINDING, HEALTHY, REPORT

HEADING = text.Heading(
    command="ddpdoctor watch", clock="14:02:11", subject="torchrun train.py: 4 ranks", next_step="run `ddpdoctor hang`"
)


def test_the_whole_screen() -> None:
    assert text.render(REPORT).splitlines() == [
        "FAIL DDP305 collective-called-by-some: rank 0 called broadcast #41 that ranks 1-3 never call",
        "  rank 0     train.py:88 in validate  waits 6.2 s",
        "  ranks 1-3  train.py:61 in train_step  all_reduce #41",
        "  inside `if rank == 0:` (train.py:85)",
        "  what to do: call it on every rank",
        "  read on:    ddpdoctor explain DDP305",
        "",
        "  WARN DDP408 collective-timed-out: 3 ranks timed out",
        "       | after 600 s",
        "    explained by DDP305",
        "",
        "undecided: rank 7 never answered",
        "note: rank 2's stderr was cut",
        "DDP184 too-few-files crashed: ZeroDivisionError: <division> & zero\\x00 (limits.py:3)",
        "1 check skipped: no GPU data (--verbose)",
        "1 fail, 1 warn (2 checks ran, 1 skipped, 1 crashed)",
    ]


def test_health_is_one_line_without_a_frame() -> None:
    assert text.render(HEALTHY, heading=HEADING) == "no findings (2 checks ran, 0 skipped)\n"


def test_colour_only_when_asked_and_never_the_only_sign() -> None:
    plain = text.render(REPORT)
    colored = text.render(REPORT, screen=Screen(color=True))
    assert "\x1b[" not in plain
    assert "\x1b[" in colored
    assert re.sub(r"\x1b\[[\d;]*m", "", colored) == plain


def test_a_verdict_stands_between_two_rules_that_name_it() -> None:
    lines = text.render(REPORT, screen=Screen(width=60), heading=HEADING).splitlines()
    assert lines[0] == "━━ ddpdoctor watch · 14:02:11 · FAIL DDP305 and 1 more ━━━━━"
    assert lines[1] == "torchrun train.py: 4 ranks"
    assert lines[-1] == "━" * 60


def test_the_frame_does_not_say_the_command_twice() -> None:
    alone = replace(HEADING, command="ddpdoctor hang", subject="ddpdoctor hang")
    assert text.render(REPORT, heading=alone).splitlines()[1:3] == [
        "",
        "FAIL DDP305 collective-called-by-some: rank 0 called broadcast #41 that ranks 1-3 never call",
    ]


def test_an_encoding_without_lines_gets_a_rule_of_ascii() -> None:
    shown = text.render(REPORT, screen=Screen(width=60, unicode=False), heading=HEADING)
    assert shown.startswith("== ddpdoctor watch - 14:02:11 - FAIL DDP305 and 1 more =====\n")


@pytest.mark.parametrize("width", [40, 60, 80, 100, 160])
def test_lines_break_at_the_ends_of_words_and_hang_below_their_beginning(width: int) -> None:
    lines = text.render(REPORT, screen=Screen(width=width)).splitlines()
    assert max(map(len, lines)) <= width
    unwrapped = text.render(REPORT)
    assert " ".join(" ".join(lines).split()) == " ".join(unwrapped.split())
    second = lines[1]
    assert second.startswith("     " if width < 90 else "  rank 0")


def test_a_word_that_is_longer_than_the_line_is_left_whole() -> None:
    path = "/shared/" + "x" * 60 + "/train.py"
    report = Report(outcomes=(), findings=(replace(FINDING, details=(f"see {path} for it",)),))
    assert f"  {path}" in text.render(report, screen=Screen(width=40)).splitlines()


def test_paths_below_the_working_directory_are_shown_relative_to_it() -> None:
    where = (replace(FINDING.where[0], file="/home/me/project/train.py"),)
    details = ("rank 0 read /home/me/project/data/a.bin and /other/home/me/project/b.bin",)
    report = Report(outcomes=(), findings=(replace(FINDING, where=where, details=details),))
    shown = text.render(report, screen=Screen(directory="/home/me/project"))
    assert "  rank 0  train.py:88 in validate  waits 6.2 s\n" in shown
    assert "  rank 0 read data/a.bin and /other/home/me/project/b.bin\n" in shown


def test_an_undecided_report_says_what_is_known_what_is_missing_and_what_to_run_next() -> None:
    report = Report(
        outcomes=(),
        findings=(),
        undecided=(
            "no progress for 12 s; the evidence does not explain it. Missing: stacks of rank 2 (permission denied)",
            "rank 0: waits in a collective",
            "rank 1: sleeps",
        ),
    )
    lines = text.render(report, heading=HEADING, screen=Screen(width=80)).splitlines()
    assert lines[0].startswith("━━ ddpdoctor watch · 14:02:11 · UNDECIDED ━")
    assert lines[3:9] == [
        "undecided: no progress for 12 s; the evidence does not explain it",
        "  known:   rank 0: waits in a collective",
        "           rank 1: sleeps",
        "  missing: stacks of rank 2 (permission denied)",
        "  next:    run `ddpdoctor hang`",
        "",
    ]


def test_a_reason_that_says_what_to_do_comes_before_the_advice_of_the_command() -> None:
    report = Report(
        outcomes=REPORT.outcomes, findings=(), undecided=("no size was measured. Next: give smaller --sizes",)
    )
    lines = text.render(report, heading=HEADING, screen=Screen(width=80)).splitlines()
    assert lines[3:5] == ["undecided: no size was measured", "  next:    give smaller --sizes"]


def test_skipped_checks_are_one_line_unless_all_are_asked_for() -> None:
    skipped = REPORT.skipped[0]
    several = tuple(replace(skipped, reason=f"reason {number}: more") for number in range(5))
    report = Report(outcomes=several, findings=())
    assert "5 checks skipped: reason 0; reason 1; reason 2; ... (--verbose)\n" in text.render(report)
    assert "skipped DDP127: reason 4: more\n" in text.render(report, verbose=True)


def test_a_report_that_names_a_cause_only_counts_what_was_skipped() -> None:
    report = replace(REPORT, undecided=())
    assert "skipped: " not in text.render(report)
    assert "1 skipped" in text.render(report)
    assert "skipped DDP127: no GPU data" in text.render(report, verbose=True)
