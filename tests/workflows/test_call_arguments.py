"""The roots and sizes of ranks that wait at one line are known from their frames, or from the source and their variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.stacks import CountedLoop, GivenPeer, GivenRoot, GivenSize
from ddpdoctor.host.running_jobs import RunningJob
from ddpdoctor.ranks.target import Target
from ddpdoctor.source.stack_lines.context import source_of
from ddpdoctor.workflows import call_arguments
from tests.flight_records import STEP, record
from tests.hangs import C10D, hang, rank

IN_BROADCAST = Frame(file=C10D, line=3000, function="broadcast")
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
    """The roots of three ranks whose functions have these variables, where others wait elsewhere."""
    text = f"def share(rank, step):\n    dist.broadcast(x, {argument})\n"
    found = given(folder, text, variables, facts=facts, others=others, **changed)
    return [entry.value.root for entry in found.per_rank(GivenRoot) or ()]


def given(
    folder: Path,
    text: str,
    variables: Mapping[str, tuple[int, ...]] = RANKS,
    *,
    facts: tuple[Any, ...] = (),
    others: tuple[Any, ...] = (),
    turns: tuple[int, ...] = (),
    **changed: Any,
) -> Evidence:
    """What is known of three ranks that wait in a broadcast in line 2, in these turns of a loop around the call of `share`."""
    script = folder / "train.py"
    script.write_text(text)
    outer = Frame(file=str(script), line=text.count("\n"), function="main")
    frames = (IN_BROADCAST, Frame(file=str(script), line=2, function="share"), *((outer,) if turns else ()))
    stacks, *state = rank(frames, **changed)
    each = [(replace(stacks, turns=tuple(in_turn)), *state, *facts) for in_turn in _in_turns(text, turns)]
    targets = tuple(Target(rank=number, pid=100 + number) for number in range(3))
    job = RunningJob(name="job", targets=targets, world_size=3, environ={}, command="")
    counted = {
        100 + number: {(1, str(script), "share", name): values[number] for name, values in variables.items()}
        for number in range(3)
    }
    code = source_of(frames[1:]) if turns else None
    evidence = hang(*each, *others, seconds=None, facts=() if code is None else (code,))
    return call_arguments.with_given_arguments(evidence, job, counted, None)


def _in_turns(text: str, turns: tuple[int, ...]) -> list[list[CountedLoop]]:
    return [[CountedLoop(frame=0, loop=text.count("\n") - 1, turn=turn)] for turn in turns] or [[], [], []]


@pytest.fixture(autouse=True)
def frames(monkeypatch: pytest.MonkeyPatch) -> dict[int, dict[str, int]]:
    """The arguments of torch's function on the stack of each process: none, until a test gives some."""
    given: dict[int, dict[str, int]] = {}
    monkeypatch.setattr(call_arguments, "numbers_of", lambda *_, **__: given)
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


def test_the_roots_of_the_ranks_in_a_broadcast_are_known_while_another_waits_behind_it(tmp_path: Path) -> None:
    """Not where others are in a second call with a root, nor while one is in no call."""
    elsewhere = rank((IN_BROADCAST, Frame(file=str(tmp_path / "train.py"), line=9, function="main")))
    reduces = rank((replace(IN_BROADCAST, function="all_reduce"), *elsewhere[0].main.frames[1:]))
    sleeps = rank(elsewhere[0].main.frames[1:], system_call="clock_nanosleep")
    assert roots(tmp_path, "src=rank", others=(reduces,)) == [0, 1, 2]
    assert roots(tmp_path, "src=rank", others=(elsewhere,)) == []
    assert roots(tmp_path, "src=rank", others=(sleeps,)) == []


def test_the_arguments_of_torchs_function_tell_what_the_source_does_not(
    tmp_path: Path, frames: dict[int, dict[str, int]]
) -> None:
    frames.update({100: {"src": 2, "group_src": 2}, 101: {"group_src": 1}, 102: {"src": 2}})
    assert roots(tmp_path, "src=rank * 2 % 3") == [2, 1, 2]
    assert roots(tmp_path, "src=step % 3", {"step": (8, 7, 8)}) == []  # a turn of a loop around the function
    assert roots(tmp_path, "src=owner(rank)") == []
    del frames[102]
    assert roots(tmp_path, "src=rank**2 % 3") == []


def test_nothing_is_asked_of_a_job_that_goes_on_or_has_recorders(tmp_path: Path) -> None:
    assert roots(tmp_path, "src=rank", moved=True) == []
    assert roots(tmp_path, "src=rank", facts=(record([STEP]),)) == []


LOOPED = "def share(rank, step):\n    {call}\ndef main():\n    for step in range(9):\n        share(rank, step)\n"


def test_in_one_turn_of_the_loop_around_the_function_any_root_tells(
    tmp_path: Path, frames: dict[int, dict[str, int]]
) -> None:
    frames.update({100: {"src": 0}, 101: {"src": 0}, 102: {"src": 2}})
    text = LOOPED.format(call="dist.broadcast(x, src=self.best)")
    told = [
        [entry.value.root for entry in given(tmp_path, text, turns=turns).per_rank(GivenRoot) or ()]
        for turns in ((4, 4, 4), (4, 4, 5))
    ]
    assert told == [[0, 0, 2], []]


def sizes(folder: Path, call: str, number: tuple[int, ...] = (5, 5, 6), turns: tuple[int, ...] = ()) -> list[Any]:
    text = LOOPED.format(call=call)
    found = given(folder, text, {**RANKS, "n": number}, turns=turns)
    return [entry.value.size for entry in found.per_rank(GivenSize) or ()]


def test_sizes_tell_in_one_turn_or_where_the_rank_alone_decides_them(tmp_path: Path) -> None:
    """A last batch is smaller, and the ranks may be in different turns."""
    assert sizes(tmp_path, "dist.broadcast(torch.zeros(n, 2), 0)", turns=(3, 3, 3)) == [(5, 2), (5, 2), (6, 2)]
    assert sizes(tmp_path, "dist.broadcast(torch.zeros(n, 2), 0)", turns=(3, 4, 3)) == []
    assert sizes(tmp_path, "dist.broadcast(torch.zeros(n, 2), 0)") == []
    assert sizes(tmp_path, "dist.broadcast(torch.zeros(4 + (rank == 2)), 0)") == [(4,), (4,), (5,)]
    assert sizes(tmp_path, "dist.broadcast(torch.zeros(n), 0, group=g)", turns=(3, 3, 3)) == []


def test_the_partner_of_a_receive_comes_from_torchs_arguments(
    tmp_path: Path, frames: dict[int, dict[str, int]]
) -> None:
    """Of a rank that spins behind the call nobody knows whether an earlier one keeps it."""
    script = tmp_path / "train.py"
    script.write_text("def stage(x, rank):\n    dist.recv(x, src=rank - 1)\n    dist.recv(x, 0, group=pair)\n")

    def peers(line: int) -> list[int]:
        call = Frame(file=IN_BROADCAST.file, line=2600, function="recv")
        told = rank((call, Frame(file=str(script), line=line, function="stage")))
        targets = tuple(Target(rank=number, pid=100 + number) for number in range(2))
        job = RunningJob(name="job", targets=targets, world_size=2, environ={}, command="")
        found = call_arguments.with_given_arguments(hang(told, told, seconds=None), job, {}, None)
        return [entry.value.peer for entry in found.per_rank(GivenPeer) or ()]

    assert peers(2) == []
    frames.update({100: {"src": 1}, 101: {"src": 0}})
    assert peers(2) == [1, 0]
    assert peers(3) == []


WAITS_FOR_A_TRANSFER = """\
def work(x, rank, world):
    left = (rank - 1) % world
    job = dist.irecv(x, {partner})
    {between}
    job.wait()
"""


def awaited(folder: Path, partner: str, between: str = "pass", **text: str) -> list[tuple[str, int]]:
    """What rank 0 in a barrier and rank 1 in the wait for a receive tell of their partners."""
    script = folder / "train.py"
    script.write_text(text.get("text", WAITS_FOR_A_TRANSFER.format(partner=partner, between=between)))
    here = Frame(file=str(script), line=5, function="work")
    barrier = Frame(file=IN_BROADCAST.file, line=4000, function="barrier")
    each = [rank((barrier, here)), rank((here,), system_call="futex")]
    targets = tuple(Target(rank=number, pid=100 + number) for number in range(2))
    job = RunningJob(name="job", targets=targets, world_size=2, environ={}, command="")
    counted = {101: {(1, str(script), "work", name): value for name, value in (("rank", 1), ("left", 0))}}
    code = source_of([here])
    evidence = hang(*each, seconds=None, facts=() if code is None else (code,))
    found = call_arguments.with_given_arguments(evidence, job, counted, None)
    return [(entry.value.op, entry.value.peer) for entry in found.per_rank(GivenPeer) or ()]


def test_the_partner_of_a_receive_that_a_rank_waits_for_comes_from_the_call_that_made_it(tmp_path: Path) -> None:
    for partner in ("src=0", "left", "rank - 1", "src=dist.get_rank() - 1"):
        assert awaited(tmp_path, partner) == [("recv", 0)]


def test_a_handle_or_a_partner_that_may_be_another_one_tells_nothing(tmp_path: Path) -> None:
    assert awaited(tmp_path, "src=0", between="job = x.send()") == []
    assert awaited(tmp_path, "left", between="left = 5") == []
    assert awaited(tmp_path, "pick()") == []
    assert awaited(tmp_path, "src=0, group=pair") == []
    handed = "def work(x, rank, world, job):\n    pass\n    pass\n    pass\n    job.wait()\n"
    assert awaited(tmp_path, "", text=handed) == []


PASSES_A_TRANSFER = """\
def finish(handle, x):
    handle.wait()
    return x

def work(x, rank, world):
    left = (rank - 1) % world
    job = dist.irecv(x, left)
    {call}
"""


@pytest.mark.parametrize(
    ("call", "peers"),
    [
        ("finish(job, x)", [0]),
        ("finish(x=x, handle=job)", [0]),
        ("finish(dist.irecv(x, left), x)", [0]),
        ("finish(*both)", []),
        ("finish(x, job)", []),
    ],
)
def test_a_handle_that_is_a_parameter_is_what_the_calling_line_gives(
    call: str, peers: list[int], tmp_path: Path
) -> None:
    script = tmp_path / "train.py"
    script.write_text(PASSES_A_TRANSFER.format(call=call))
    wait, caller = (Frame(file=str(script), line=line, function=name) for line, name in ((2, "finish"), (8, "work")))
    barrier = Frame(file=IN_BROADCAST.file, line=4000, function="barrier")
    each = [rank((barrier, caller)), rank((wait, caller), system_call="futex")]
    targets = tuple(Target(rank=number, pid=100 + number) for number in range(2))
    job = RunningJob(name="job", targets=targets, world_size=2, environ={}, command="")
    counted = {101: {(2, str(script), "work", name): value for name, value in (("rank", 1), ("left", 0))}}
    code = source_of([wait, caller])
    assert code is not None
    found = call_arguments.with_given_arguments(hang(*each, seconds=None, facts=(code,)), job, counted, None)
    given = [entry.value for entry in found.per_rank(GivenPeer) or ()]
    assert [(one.op, one.peer, one.place) for one in given] == [("recv", peer, caller) for peer in peers]


def test_ranks_that_wait_for_what_a_rank_in_a_barrier_never_sent_are_told_with_its_line(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(WAITS_FOR_A_TRANSFER.format(partner="src=0", between="pass"))
    here = Frame(file=str(script), line=5, function="work")
    barrier = (Frame(file=IN_BROADCAST.file, line=4000, function="barrier"), replace(here, line=12, function="serve"))
    each = [rank(barrier), *[rank((here,), system_call="futex")] * 2]
    targets = tuple(Target(rank=number, pid=100 + number) for number in range(3))
    job = RunningJob(name="job", targets=targets, world_size=3, environ={}, command="")
    code = source_of([here])
    assert code is not None
    evidence = call_arguments.with_given_arguments(hang(*each, seconds=None, facts=(code,)), job, {}, None)
    (found,) = diagnose(evidence).findings
    assert found.code == "DDP313"
    assert found.ranks == (0,)
    assert "rank 0 waits in barrier" in found.message
