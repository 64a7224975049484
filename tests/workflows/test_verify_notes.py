"""What is said of a followed script beside its replicas."""

from __future__ import annotations

import json
import os
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ddpdoctor.agent import gave_up
from ddpdoctor.agent.inside.schema.final_records import End
from ddpdoctor.agent.inside.schema.model_records import WrappedTwice
from ddpdoctor.agent.inside.schema.rank_end import COMPARING, GaveUp
from ddpdoctor.agent.inside.schema.source_line import SourceLine
from ddpdoctor.evidence import Evidence, RankFacts
from ddpdoctor.evidence.training_trace import Left, Track
from ddpdoctor.workflows import verify_script
from ddpdoctor.workflows.training_script import Audit, TrainingScript
from ddpdoctor.workflows.verify_notes import (
    audited_steps,
    ends_not_compared,
    how_it_ended,
    not_audited,
    not_probed,
    not_written,
    stood_still,
    without_a_final_record,
    wrapped_twice,
)
from tests.audited_steps import job_of


@pytest.mark.parametrize(
    ("audited", "made", "every", "says"),
    [
        ((0, 1, 3, 7), 40, 0, "up to 32 steps in a row were not audited, to keep the overhead low"),
        ((0, 1, 3, 4), 5, 0, "some steps were not audited, to keep the overhead low"),
        ((0, 1, 2, 3), 4, 0, ""),  # whatever the next interval would have been
        ((3, 7, 11, 15), 16, 4, ""),  # as was asked for
    ],
)
def test_the_longest_stretch_without_an_audit_is_told(
    audited: tuple[int, ...], made: int, every: int, says: str
) -> None:
    job = job_of(
        lambda _rank, step: {"step": audited[step], "forwards": audited[step] + 1},
        steps=len(audited), every=[every] * 3, steps_made=[made] * 3,
    )  # fmt: skip
    notes = not_audited([fact for rank in job.ranks for fact in rank.facts if isinstance(fact, Track)])
    assert [note.partition(": ")[0] for note in notes] == [says] * bool(says)


def test_a_script_that_failed_is_told_with_its_exit_code(tmp_path: Path) -> None:
    assert how_it_ended(Path("jobs/train.py"), tmp_path, 0, "python jobs/train.py") == ()
    (note,) = how_it_ended(Path("jobs/train.py"), tmp_path, 7, "torchrun --nproc-per-node 2 jobs/train.py")
    assert note.startswith("train.py exited with code 7; this report covers the steps before that")
    assert "`ddpdoctor watch -- torchrun --nproc-per-node 2 jobs/train.py` shows why" in note


def test_what_an_interrupted_script_recorded_is_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C, or the time limit of a scheduler, after an hour of audited steps: the report of these steps is not lost."""
    recorded: list[str] = []

    def interrupted(*given: Any) -> None:
        for name in recorded:
            (given[3] / name).write_text("{}")
        raise KeyboardInterrupt

    def followed() -> AbstractContextManager[verify_script.Tracked]:
        return verify_script.track_script(
            script, Audit(), stall_after=60.0, quiet_stdout=False, on_wait=None, on_gather=lambda _: None
        )

    monkeypatch.setattr(verify_script, "_run", interrupted)
    (tmp_path / "train.py").touch()
    script = TrainingScript(path=tmp_path / "train.py", arguments=(), nproc=2)
    with pytest.raises(KeyboardInterrupt), followed():
        pass
    recorded.append("0.sync.jsonl")
    with followed() as tracked:
        assert tracked.code == 130
        assert tracked.evidence is not None
        assert "train.py was interrupted; this report covers the steps before that" in tracked.evidence.notes


def test_a_rank_whose_agent_gave_up_is_not_said_to_have_been_killed(tmp_path: Path) -> None:
    tracks = [Track(method="xxh3", every=1, steps_made=made) for made in (None, None, 4)]
    ranks = [RankFacts(rank=rank, host="a", facts=(track,)) for rank, track in enumerate(tracks)]
    (note,) = without_a_final_record(ranks, gave_up(COMPARING, tmp_path))
    assert note.startswith("2 of 3 ranks ended without a final record")
    (tmp_path / "7.gave-up").write_text(json.dumps(GaveUp(0, COMPARING, "x")) + '\n["cut')
    (note,) = without_a_final_record(ranks, gave_up(COMPARING, tmp_path))
    assert note.startswith("1 of 3 ranks")
    (tmp_path / "8.gave-up").write_text(json.dumps(GaveUp(1, COMPARING, "x")) + "\n")
    (tmp_path / "9.gave-up").write_text(json.dumps(GaveUp(2, "the worker server", "x")) + "\n")
    assert gave_up(COMPARING, tmp_path) == {"0", "1"}
    assert without_a_final_record(ranks, gave_up(COMPARING, tmp_path)) == ()


def test_weights_that_ranks_looked_at_in_different_moments_are_said_to_be_not_compared() -> None:
    def said(*ends: Left) -> tuple[str, ...]:
        return ends_not_compared([Track(method="xxh3", every=0, left=(end,)) for end in ends])

    assert said() == (), "a job that nobody audits"
    (note,) = said(Left(step=60, weights="a", moment="pass 9"), Left(step=60, weights="b", moment="leave"))
    assert note.startswith("the weights after the last step, 60, were not compared")
    assert "(at the end of a pass over the data and before it left the process group)" in note
    assert said(Left(step=60, weights="a", moment="pass 9"), Left(step=60, weights="a", moment="leave")) == ()
    assert said(Left(step=60, weights="a"), Left(step=60, weights="b")) == ()
    assert said(Left(step=59, weights="a", moment="pass 9"), Left(step=60, weights="b")) == ()


@pytest.mark.parametrize(("free", "said"), [(3, 1), (1 << 20, 0)])
def test_a_full_disk_is_told_and_one_with_space_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, said: int
) -> None:
    real = os.statvfs(tmp_path)
    fields = list(real)
    fields[1], fields[4] = 4096, free  # f_frsize, f_bavail
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result(fields))
    reasons = not_written(tmp_path / "ranks", tmp_path)
    assert len(reasons) == said
    assert all(f"{tmp_path} is full" in reason for reason in reasons)


def test_a_second_wrap_is_told_once_with_its_line(tmp_path: Path) -> None:
    for rank in range(2):
        records = (End(1, 1, 1), WrappedTwice(SourceLine("train.py", 16, "<module>")))
        text = "\n".join(json.dumps([type(record).__name__, record]) for record in records)
        (tmp_path / f"{rank}.sync.jsonl").write_text(f'{text}\n["WrappedTwice", [["tr')
    (note,) = wrapped_twice(tmp_path)
    assert note.startswith("train.py:16 in <module> wraps a model in DistributedDataParallel that is already wrapped")


def test_ranks_whose_script_was_ended_for_its_silence_are_named(tmp_path: Path) -> None:
    script = Path("train.py")
    assert stood_still(script, tmp_path, 600, "python train.py") == ()
    for rank in (1, 3):
        (tmp_path / f"{rank}-stalled").touch()
    (said,) = stood_still(script, tmp_path, 600, "python train.py")
    assert said.startswith("train.py on ranks 1,3 recorded nothing for 600 s and was ended: `ddpdoctor watch")
    (tmp_path / "stalled").touch()
    (said,) = stood_still(script, tmp_path, 600, "python train.py")
    assert said.startswith("train.py recorded nothing for 600 s")


def test_a_probe_that_ran_nowhere_is_told() -> None:
    """FSDP2 wraps no model in DistributedDataParallel."""
    never = Track(method="xxh3", every=1, steps_made=4, never_probed=True)
    (note,) = not_probed([never, never])
    assert note.startswith("no probe batch ran, although --probe-every was given")
    assert not_probed([never, replace(never, never_probed=False)]) == ()
    assert not_probed([replace(never, steps_made=0)]) == ()
    assert not_probed([]) == ()


def test_audited_steps_are_counted() -> None:
    """A job of 40 steps, of which one was audited, is not known to be healthy: the command says how many were audited."""
    assert audited_steps(job_of(lambda *_: {}, steps=1, steps_made=[40] * 3)) == (
        ("audited", "1 of 40 steps, on 3 ranks"),
    )
    assert audited_steps(Evidence()) == ()
