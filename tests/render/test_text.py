"""What a person reads at a terminal."""

from __future__ import annotations

from ddpdoctor.render import text
from tests.render import HEALTHY, REPORT


def test_the_whole_screen() -> None:
    assert text.render(REPORT).splitlines() == [
        "DDP305 collective-called-by-some: rank 0 called broadcast #41 that ranks 1-3 never call",
        "  rank 0     train.py:88 in validate  waits 6.2 s",
        "  ranks 1-3  train.py:61 in train_step  all_reduce #41",
        "  inside `if rank == 0:` (train.py:85)",
        "  what to do: call it on every rank",
        "",
        "  DDP408 collective-timed-out: 3 ranks timed out",
        "    after 600 s",
        "    explained by DDP305",
        "",
        "undecided: rank 7 never answered",
        "note: rank 2's stderr was cut",
        "DDP184 too-few-files crashed: ZeroDivisionError: <division> & zero (limits.py:3)",
        "skipped DDP127: no GPU data: this host has no NVIDIA driver",
        "1 fail, 1 warn (2 checks ran, 1 skipped, 1 crashed)",
    ]


def test_health_is_one_line() -> None:
    assert text.render(HEALTHY) == "no findings (2 checks ran, 0 skipped)\n"


def test_colour_only_when_asked() -> None:
    assert "\x1b[" not in text.render(REPORT)
    assert "\x1b[" in text.render(REPORT, color=True)
