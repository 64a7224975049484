"""The window between two looks, and what a second run that looks at every step says about it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence, RankFacts
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.training_trace import Table, Track
from ddpdoctor.workflows.step_bisection import OpenQuestion, unseen_steps
from ddpdoctor.workflows.verify_rerun import exact
from tests.analysis.replicas.tracking import job

COMMAND = "ddpdoctor verify-sync --nproc 3 --every 1 train.py"
SEEN = job("abc", "abx", "abc", every=4)  # equal after steps 0 and 4, apart after step 8
EXACT = job([*"a123b567c"], [*"a123b5xyz"], [*"a123b567c"])

LINE = Frame(file="/job/train.py", line=61, function="train")


def never(_: object) -> Evidence:
    raise AssertionError("nobody asked for a second run")


def test_without_a_replay_the_window_and_the_next_command_are_said() -> None:
    evidence = exact(SEEN, COMMAND, None)
    assert evidence.notes == (f"the ranks diverged somewhere in steps 5 to 8: `{COMMAND}` finds the step",)


def test_the_report_of_a_watched_job_says_which_steps_nobody_looked_at() -> None:
    (note,) = unseen_steps(diagnose(SEEN), SEEN)
    assert note.startswith("the ranks diverged somewhere in steps 5 to 8")
    assert not [*unseen_steps(diagnose(EXACT), EXACT)]


def test_a_replay_of_a_deterministic_script_gives_the_exact_step() -> None:
    evidence = exact(SEEN, COMMAND, lambda _: EXACT)
    (finding, *_) = diagnose(evidence).findings
    assert (finding.code, finding.ranks, finding.measured["step"]) == ("DDP503", (1,), 6)
    assert "the first run narrowed it down to steps 5 to 8" in evidence.notes[0]


OTHERWISE = {
    "nothing": (job([*"a123b567c"], [*"a123b567c"], [*"a123b567c"]), "no step at which the ranks diverge"),
    "another step": (job([*"ax23b567c"], [*"a123b567c"], [*"a123b567c"]), "DDP503 at step 1"),
    "other weights": (
        job([*"A123B567c"], [*"A123B5xyz"], [*"A123B567c"]),
        "the weights differed from the first run even before that",
    ),
    "another start": (
        job([*"a123b567c"], [*"a123b5xyz"], [*"a123b567c"], start="other"),
        "the weights differed from the first run even before that",
    ),
}


@pytest.mark.parametrize("showed", OTHERWISE)
def test_a_replay_that_shows_something_else_says_that_the_script_is_not_deterministic(showed: str) -> None:
    again, said = OTHERWISE[showed]
    evidence = exact(SEEN, COMMAND, lambda _: again)
    assert diagnose(evidence).findings == diagnose(SEEN).findings
    (note,) = evidence.notes
    assert "not deterministic" in note
    assert said in note


def test_a_step_that_is_exact_already_leaves_no_window() -> None:
    assert exact(EXACT, COMMAND, None) == EXACT


def test_equal_replicas_are_not_replayed() -> None:
    healthy = job("abc", "abc", "abc", every=4)
    assert exact(healthy, COMMAND, never) == healthy


def test_the_line_that_wrote_is_sought_by_a_replay_where_one_can_be_made() -> None:
    weights = [*"a123b567c"]
    written = job(weights, weights, weights, settings={1: {5: "0.2"}})
    replayed = "ddpdoctor verify-sync --nproc 3 --every 1 --replay train.py"
    assert exact(written, replayed, None).notes == (f"`{replayed}` finds the line that did it",)
    assert exact(written, "torchrun ... -m ddpdoctor verify-sync train.py", None) == written
    asked: list[str] = []

    def again(left: OpenQuestion) -> Evidence:
        asked.append(str(left.window))
        return written

    assert "examined step 5 to find the line that did it" in exact(written, replayed, again).notes[0]
    assert asked == ["steps 5 to 5"]


@pytest.mark.parametrize("writes", [{}, {"weights": (LINE,)}], ids=["forward", "write"])
def test_a_line_that_is_shown_already_is_not_sought(writes: dict[str, tuple[Frame, ...]]) -> None:
    weights = [*"a123b567c"]
    evidence = job(weights, weights, weights)
    tracks = evidence.per_rank(Track)
    assert tracks is not None
    (sick, *_) = tracks
    steps = list(sick.value.steps)
    steps[5] = replace(steps[5], weights="w", writes=writes, lines={"forward": LINE})
    tables = {**sick.value.tables, "w": Table(digests={"w": "w"}, shapes={"w": (1,)})}
    wrote = replace(sick.value, steps=tuple(steps), tables=tables)
    ranks = [RankFacts(rank=sick.rank, host=sick.host, facts=(wrote,)), *evidence.ranks[1:]]
    written = replace(evidence, ranks=tuple(ranks))
    (first, *_) = diagnose(written).findings
    assert (first.code, first.ranks, first.measured["shown"]) == ("DDP509", (0,), "write" if writes else "")
    replayed = "ddpdoctor verify-sync --nproc 3 --every 1 --replay train.py"
    assert exact(written, replayed, None).notes == (() if writes else (f"`{replayed}` finds the line that did it",))


def test_the_element_of_a_tensor_that_is_only_known_to_differ_is_sought() -> None:
    (note,) = exact(EXACT, "ddpdoctor verify-sync --nproc 3 --every 1 --replay train.py", None).notes
    assert note.endswith("finds the line that did it and the element in which w differs")
