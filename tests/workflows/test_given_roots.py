"""The roots of ranks that wait at one line are known from their frames, or from the source and what their functions count."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.stacks import GivenRoot
from ddpdoctor.host.running_jobs import RunningJob
from ddpdoctor.ranks.snapshot import Target
from ddpdoctor.workflows import given_roots
from tests.flight_records import STEP, record
from tests.hangs import TORCH, hang, rank

IN_BROADCAST = Frame(file=f"{TORCH}/distributed/distributed_c10d.py", line=3000, function="broadcast")
RANKS = {"rank": (0, 1, 2)}


def roots(
    folder: Path,
    argument: str,
    variables: Mapping[str, tuple[int, ...]] = RANKS,
    *,
    facts: tuple[Any, ...] = (),
    others: tuple[Any, ...] = (),
    **changed: Any,
) -> list[int]:
    """What is known of three ranks whose functions have these variables, and of others that wait elsewhere."""
    script = folder / "train.py"
    script.write_text(f"def share(rank, step):\n    dist.broadcast(x, {argument})\n")
    told = (*rank((IN_BROADCAST, Frame(file=str(script), line=2, function="share")), **changed), *facts)
    targets = tuple(Target(rank=number, pid=100 + number) for number in range(3))
    job = RunningJob(name="job", targets=targets, world_size=3, environ={}, command="")
    counted = {
        100 + number: {(1, str(script), "share", name): values[number] for name, values in variables.items()}
        for number in range(3)
    }
    found = given_roots.with_given_roots(hang(told, told, told, *others, seconds=None), job, counted, None)
    return [entry.value.root for entry in found.per_rank(GivenRoot) or ()]


@pytest.fixture(autouse=True)
def frames(monkeypatch: pytest.MonkeyPatch) -> dict[int, dict[str, int]]:
    """The arguments of torch's function on the stack of each process: none, until a test gives some."""
    given: dict[int, dict[str, int]] = {}
    monkeypatch.setattr(given_roots, "numbers_of", lambda *_, **__: given)
    return given


def test_ranks_that_spin_behind_the_call_tell_by_the_source_and_their_variables(tmp_path: Path) -> None:
    assert roots(tmp_path, "src=1 if rank == 2 else 0") == [0, 0, 1]
    assert roots(tmp_path, "src=step % 3", {"step": (7, 7, 7)}) == [1, 1, 1]
    assert roots(tmp_path, "src=owner(rank)") == []


def test_a_variable_that_differs_and_is_not_the_rank_tells_nothing(tmp_path: Path) -> None:
    """The ranks may be in different steps."""
    assert roots(tmp_path, "src=step % 3", {"step": (7, 8, 7)}) == []
    assert roots(tmp_path, "src=(rank + step) % 3", RANKS | {"step": (7, 7, 7)}) == [1, 2, 0]


def test_a_variable_that_happens_to_be_the_rank_on_each_is_not_the_rank(tmp_path: Path) -> None:
    assert roots(tmp_path, "src=owner", {"owner": (0, 1, 2)}) == []


def test_a_variable_that_is_not_known_on_every_rank_tells_nothing(tmp_path: Path) -> None:
    assert roots(tmp_path, "src=0 if rank < 5 else step") == []


def test_roots_are_compared_within_the_default_group_alone(tmp_path: Path, frames: dict[int, dict[str, int]]) -> None:
    """Each of several groups that wait at one line has a root of its own."""
    frames.update({100: {"src": 0}, 101: {"src": 0}, 102: {"src": 2}})
    assert roots(tmp_path, "src=rank - rank % 2") == [0, 0, 2]
    assert roots(tmp_path, "src=rank - rank % 2, group=groups[rank // 2]") == []
    assert roots(tmp_path, "rank - rank % 2, mine") == []


def test_nothing_is_said_while_a_rank_waits_elsewhere(tmp_path: Path) -> None:
    elsewhere = rank((IN_BROADCAST, Frame(file=str(tmp_path / "train.py"), line=9, function="main")))
    reduces = rank((replace(IN_BROADCAST, function="all_reduce"), *elsewhere[0].main.frames[1:]))
    assert roots(tmp_path, "src=rank") == [0, 1, 2]
    assert roots(tmp_path, "src=rank", others=(reduces,)) == []


def test_the_arguments_of_torchs_function_tell_what_the_source_does_not(
    tmp_path: Path, frames: dict[int, dict[str, int]]
) -> None:
    frames.update({100: {"src": 2, "group_src": 2}, 101: {"group_src": 1}, 102: {"src": 2}})
    assert roots(tmp_path, "src=rank * 2 % 3") == [2, 1, 2]
    assert roots(tmp_path, "src=step % 3", {"step": (8, 7, 8)}) == []  # a turn of a loop around the function
    assert roots(tmp_path, "src=owner(rank)") == []
    del frames[102]
    assert roots(tmp_path, "src=rank * 2 % 3") == []


def test_nothing_is_asked_of_a_job_that_goes_on_or_has_recorders(tmp_path: Path) -> None:
    assert roots(tmp_path, "src=rank", moved=True) == []
    assert roots(tmp_path, "src=rank", facts=(record([STEP]),)) == []
