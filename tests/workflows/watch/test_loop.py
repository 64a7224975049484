"""When a job that stood still is said to have gone on, and when its standstill is what it ended in."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ddpdoctor.agent.inside.schema.call_ring import Header
from ddpdoctor.agent.inside.schema.error import Error
from ddpdoctor.agent.inside.schema.rank_end import RankFailure
from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.launch import Joining
from ddpdoctor.evidence.process import ChildProcess, Stall
from ddpdoctor.evidence.ranks import JobSize
from ddpdoctor.launch.observed_job import Received
from ddpdoctor.ranks.agent_files import RankProcess
from ddpdoctor.source.stack_lines.context import source_of
from ddpdoctor.workflows.watch import loop
from ddpdoctor.workflows.watch.loop import JobEnd, RankAtWork, Recovered, Stalled, Watch
from ddpdoctor.workflows.watch.multi_node import OtherNodes
from ddpdoctor.workflows.watch.stall_detector import StallDetector
from tests.hangs import C10D, STDLIB, TORCH, hang, rank, stack
from tests.waiting import PROGRAM_SECONDS

STOOD = hang(rank(), rank(stack()))
BOTH_WAIT = hang(rank(), rank(), facts=(JobSize(ranks=4),))


@dataclass
class Known:
    """A job of one rank, this process, that shows one of `headers` after the other and then ends with `code`."""

    headers: list[Header]
    code: int
    directory: Path
    stood: Evidence = STOOD
    killed_at: float | None = None
    notes: list[str] = field(default_factory=list)
    memory: Any = field(default_factory=lambda: SimpleNamespace(observe=list))
    processors: Any = field(default_factory=lambda: SimpleNamespace(observe=dict))
    audit: None = None
    received: list[Received] = field(default_factory=list)
    pid: int = field(default_factory=os.getpid)

    def note_versions(self, _ranks: object) -> None:
        """Nobody asks for them here."""

    @property
    def job(self) -> Any:
        return SimpleNamespace(wait=self._wait, drain=lambda: None, received=self.received)

    def _wait(self, _seconds: float) -> int | None:
        if len(self.headers) == 1:
            return self.code
        self.headers.pop(0)
        return None

    def ranks(self, _directory: Path) -> tuple[RankProcess, ...]:
        return (RankProcess(directory=self.directory, pid=self.pid, header=self.headers[0]),)

    def during_stall(self, *_: object) -> Evidence:
        return self.stood

    def after_exit(self, _code: int, stall: Evidence | None) -> Evidence:
        return stall or Evidence()


def header(*, calls: int, returned: int) -> Header:
    return Header(rank=0, world_size=2, written=calls, forwards=1, steps=1, returned=returned)


@pytest.fixture(autouse=True)
def _a_call_that_comes_back_is_settled_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "QuietMoves", lambda: SimpleNamespace(seen=lambda _ranks, _quiet: 0))
    monkeypatch.setattr(loop, "SETTLED_SECONDS", -1.0)


@pytest.mark.parametrize(
    ("later", "error", "code", "ended_in_it"),
    [
        (header(calls=5, returned=5), True, 1, True),
        (header(calls=5, returned=5), False, 1, False),  # it came back, and the job died of something else
        (header(calls=6, returned=5), True, 1, False),  # it made another call first
        (header(calls=5, returned=5), False, 0, False),
    ],
    ids=["gave up", "came back", "went on", "finished"],
)
def test_a_job_whose_calls_come_back_with_an_error_has_ended_in_its_standstill(
    later: Header, error: bool, code: int, ended_in_it: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if error:
        failure = RankFailure(0.0, Error("RuntimeError", "Connection closed by peer"))
        (tmp_path / f"{os.getpid()}.error").write_text(json.dumps(failure))
    waits = header(calls=5, returned=4)
    known = Known([waits, waits, waits, later], code, tmp_path)
    monkeypatch.setattr(loop, "find_ranks", known.ranks)
    events = [*Watch(known=known, stall_detector=StallDetector(given=0.0)).events()]  # type: ignore[arg-type]
    assert [type(event) for event in events] == [Stalled, *([] if ended_in_it else [Recovered]), JobEnd]
    assert isinstance(events[-1], JobEnd)
    assert (events[-1].evidence.one(Stall) is not None, known.notes == []) == (ended_in_it, ended_in_it)


@pytest.mark.parametrize(("how", "code"), [("killed", 1), ("asked to end", 1), ("asked to end", 0)])
def test_what_a_hanging_job_does_while_it_is_ended_is_no_way_out(
    how: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A handler of SIGTERM saves a checkpoint, and its calls are new ones."""
    waits, calls_again = header(calls=5, returned=4), header(calls=6, returned=5)
    known = Known([waits, waits, waits, calls_again], code, tmp_path)
    if how == "killed":
        known.pid = ended_process()
    else:
        known.received.append(Received(signal.SIGTERM, time.time()))
    monkeypatch.setattr(loop, "find_ranks", known.ranks)
    events = [*Watch(known=known, stall_detector=StallDetector(given=0.0)).events()]  # type: ignore[arg-type]
    assert [type(event) for event in events] == [Stalled, JobEnd]
    assert known.notes == []


def ended_process() -> int:
    with subprocess.Popen(["true"]) as process:
        process.wait(timeout=PROGRAM_SECONDS)
    return process.pid


def test_ranks_that_wait_for_a_node_that_nobody_sees_are_granted_what_a_rank_at_work_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rank 0 may be in a long evaluation there: `--kill-on-hang` must not end it."""
    monkeypatch.setattr(StallDetector, "patience", lambda _self, *, moving=False: 600.0 if moving else 0.0)
    for part, event in ((True, RankAtWork), (False, Stalled)):
        known = Known([header(calls=5, returned=4)] * 3, 0, tmp_path, stood=BOTH_WAIT)
        monkeypatch.setattr(loop, "find_ranks", known.ranks)
        monkeypatch.setattr(OtherNodes, "has_others", part)
        (first, *_) = Watch(known=known, stall_detector=StallDetector()).events()  # type: ignore[arg-type]
        assert type(first) is event
        if isinstance(first, RankAtWork):
            assert first.text == "ranks 0-1 wait for others; there is no evidence of ranks 2-3 on other nodes"


def test_a_job_that_goes_on_while_it_is_looked_at_is_no_stall(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look takes seconds on a busy machine; what it shows is of before and after."""
    waits = header(calls=5, returned=4)
    for later, expected in ((header(calls=6, returned=5), [JobEnd]), (waits, [Stalled, JobEnd])):
        known = Known([waits, waits, waits], 0, tmp_path)
        found = iter([waits, waits, later, later, later])
        monkeypatch.setattr(
            loop, "find_ranks", lambda folder, found=found: (RankProcess(directory=folder, pid=1, header=next(found)),)
        )
        events = [*Watch(known=known, stall_detector=StallDetector(given=0.0)).events()]  # type: ignore[arg-type]
        assert [type(event) for event in events] == expected


IN_RENDEZVOUS = stack((C10D, 1899, "init_process_group"), user=(8, "main"))
JOINS, PREPARES = Joining(called=True), Joining(called=False)
SLEEPING = rank(stack(user=(5, "prepare")), system_call="clock_nanosleep")
BUSY = rank(stack(user=(5, "prepare")), active=True, state="R", cpu_share=0.97)
IMPORTS = rank(
    (Frame(file="<frozen importlib._bootstrap>", line=1176, function="_find_and_load"), *stack(user=(1, "<module>"))),
    active=True,
    cpu_share=0.9,
)

LOADS = rank(
    stack((f"{TORCH}/utils/data/dataloader.py", 1482, "_next_data"), user=(34, "train")),
    children=(
        ChildProcess(
            pid=4711,
            kind="data loader worker",
            state="R",
            command="python",
            cpu_share=0.9,
            stack=IMPORTS[0].main.frames,
        ),
    ),
)


def first_event(
    prepares: tuple[Any, ...], quiet: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: float | None = None
) -> Any:
    """What is said of a rank that waits for one that `prepares`, after `quiet` seconds."""
    stood = hang((*rank(IN_RENDEZVOUS), JOINS), (*prepares, PREPARES))
    known = Known([header(calls=0, returned=0)] * 3, 0, tmp_path, stood=stood)
    monkeypatch.setattr(loop, "find_ranks", known.ranks)
    monkeypatch.setattr(StallDetector, "quiet", lambda _self, _now: quiet)
    return next(Watch(known=known, stall_detector=StallDetector(given=given)).events())  # type: ignore[arg-type]


@pytest.mark.parametrize("prepares", [BUSY, SLEEPING], ids=["computes", "sleeps"])
def test_a_rank_that_prepares_before_it_joins_has_ten_times_the_patience_and_is_never_ended(
    prepares: tuple[Any, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = first_event(prepares, 250.0, tmp_path, monkeypatch)
    assert isinstance(said, RankAtWork)
    assert said.text.startswith("rank 1 is busy before joining, in prepare() (/job/train.py:5, on CPU ")
    assert said.text.endswith("), rank 0 waits for it")
    late = first_event(prepares, 310.0, tmp_path, monkeypatch)
    assert isinstance(late, Stalled)
    assert late.alive == (1,)


@pytest.mark.parametrize("imports", [IMPORTS, LOADS], ids=["itself", "in a worker of its loader"])
def test_what_the_user_gave_holds_before_joining_but_for_a_rank_that_imports(
    imports: tuple[Any, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = first_event(BUSY, 7.0, tmp_path, monkeypatch, given=6.0)
    assert isinstance(given, Stalled)
    (found,) = diagnose(given.evidence).findings
    assert (found.code, found.ranks) == ("DDP307", (1,))
    assert found.message.startswith("rank 1 in prepare (train.py:5) computes before it joins; rank 0 waits for it")
    assert isinstance(first_event(imports, 7.0, tmp_path, monkeypatch, given=6.0), JobEnd)
    assert isinstance(first_event(imports, 130.0, tmp_path, monkeypatch, given=6.0), Stalled)


def test_a_job_whose_ranks_all_compute_is_reported_after_what_the_user_gave_and_not_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the ranks look like: without `--stall-after` nobody is said to wait, nor on a host that is too busy to tell."""
    monkeypatch.setattr(StallDetector, "quiet", lambda _self, _now: 125.0)
    for given, load, event in (
        (60.0, 0.0, Stalled),
        (60.0, 1000.0, JobEnd),
        (None, 0.0, JobEnd),
        (6.0, 1000.0, Stalled),
    ):
        monkeypatch.setattr(loop.os, "getloadavg", lambda load=load: (load, load, load))
        known = Known([header(calls=5, returned=4)] * 3, 0, tmp_path, stood=hang(BUSY, BUSY))
        monkeypatch.setattr(loop, "find_ranks", known.ranks)
        (first, *_) = Watch(known=known, stall_detector=StallDetector(given=given)).events()  # type: ignore[arg-type]
        assert type(first) is event
        if isinstance(first, Stalled):
            _, ranks = diagnose(first.evidence).undecided
            assert ranks.startswith("ranks 0-1: each computes at /job/train.py:5 in prepare, on CPU 97 %")


def test_a_host_that_is_too_busy_to_tell_hides_no_wait_for_a_key_of_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StallDetector, "quiet", lambda _self, _now: 125.0)
    monkeypatch.setattr(loop.os, "getloadavg", lambda: (1000.0, 1000.0, 1000.0))
    script = tmp_path / "train.py"
    script.write_text('def weights(store):\n    return store.get("weights")\n')
    line = Frame(file=str(script), line=2, function="weights")
    code = source_of([line])
    assert code is not None
    asks = rank((line,), system_call="recvfrom")
    for facts, event in (((code,), Stalled), ((), JobEnd)):
        known = Known([header(calls=5, returned=5)] * 3, 0, tmp_path, stood=hang(asks, asks, facts=facts))
        monkeypatch.setattr(loop, "find_ranks", known.ranks)
        (first, *_) = Watch(known=known, stall_detector=StallDetector(given=60.0)).events()  # type: ignore[arg-type]
        assert type(first) is event


def beating(*each: tuple[int, int]) -> list[Header]:
    """One after the other what a rank shows that has made so many calls in all and so many in its training."""
    return [
        Header(rank=0, world_size=2, written=calls, returned=calls - 1, forwards=1, steps=1,
               written_in_training=trained, returned_in_training=trained - 1)
        for calls, trained in each
    ]  # fmt: skip


def beside_a_heartbeat(
    stood: Evidence, headers: list[Header], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: float | None = 0.0
) -> list[Any]:
    """What happens to a job of these headers, in which calls of some thread are always a moment ago."""
    known = Known(headers, 0, tmp_path, stood=stood)
    monkeypatch.setattr(loop, "find_ranks", known.ranks)
    monkeypatch.setattr(loop.os, "getloadavg", lambda: (0.0, 0.0, 0.0))
    watch = Watch(known=known, stall_detector=StallDetector(given=given))  # type: ignore[arg-type]
    monkeypatch.setattr(StallDetector, "quiet", lambda self, _now: 40.0 if self is watch._training else -1.0)
    return [*watch.events()]


BEATS = [(calls, 5) for calls in range(10, 18)]
HANDED_OVER = rank(stack((f"{STDLIB}/queue.py", 171, "get"), user=(5, "prepare")), system_call="futex")
ASLEEP = rank(stack(user=(5, "prepare")), system_call="clock_nanosleep")


def test_a_thread_that_reports_hides_no_hang_of_the_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes on when the training does, and not by another report."""
    hung, ended = beside_a_heartbeat(hang(rank(), ASLEEP), beating(*BEATS), tmp_path, monkeypatch)
    assert isinstance(hung, Stalled)
    assert (hung.seconds, hung.alive, type(ended)) == (40.0, (), JobEnd)
    assert diagnose(hung.evidence).findings[0].ranks == (1,)
    later = beating(*BEATS, (18, 6), (19, 7))
    events = beside_a_heartbeat(hang(rank(), ASLEEP), later, tmp_path, monkeypatch)
    assert [type(event) for event in events] == [Stalled, Recovered, JobEnd]


@pytest.mark.parametrize(
    ("stood", "given", "expected"),
    [
        (hang(rank(), BUSY), 0.0, [Stalled, JobEnd]),
        (hang(rank(), BUSY), None, [RankAtWork, JobEnd]),  # one evaluates, the others wait for it
        (hang(rank(), rank(moved=True)), 0.0, [Stalled, JobEnd]),
        (hang(rank(), rank(moved=True)), None, [JobEnd]),
        # nobody waits for a peer: the thread that makes the calls may be the one that trains
        (hang(ASLEEP, ASLEEP), 0.0, [JobEnd]),
        (hang(ASLEEP, ASLEEP), None, [JobEnd]),
    ],
    ids=["computes, given", "computes", "moves, given", "moves", "nobody waits, given", "nobody waits"],
)
def test_a_thread_that_reports_beside_a_training_that_may_be_healthy_is_a_sign_of_life_unless_the_user_gave_a_time(
    stood: Evidence, given: float | None, expected: list[type], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = beside_a_heartbeat(stood, beating(*BEATS), tmp_path, monkeypatch, given)
    assert [type(event) for event in events] == expected


def test_beside_a_thread_that_reports_a_rank_that_spins_is_reported_after_ten_times_the_patience(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the training completes decides, and not the processor that it uses."""
    monkeypatch.setattr(StallDetector, "patience", lambda _self, *, moving=False: 39.0 if moving else 3.9)
    hung, _ = beside_a_heartbeat(hang(rank(), BUSY), beating(*BEATS), tmp_path, monkeypatch, None)
    assert isinstance(hung, Stalled)
    assert (hung.alive, diagnose(hung.evidence).findings[0].code) == ((1,), "DDP307")


def test_a_rank_that_waits_for_its_own_threads_may_wait_for_the_one_that_makes_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then it has ten times the patience, unless the user gave one."""
    monkeypatch.setattr(
        StallDetector, "patience", lambda self, *, moving=False: self.given or (300.0 if moving else 30.0)
    )
    for given, expected in ((None, [JobEnd]), (30.0, [Stalled, JobEnd])):
        events = beside_a_heartbeat(hang(rank(), HANDED_OVER), beating(*BEATS), tmp_path, monkeypatch, given)
        assert [type(event) for event in events] == expected
