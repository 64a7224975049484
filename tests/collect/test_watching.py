"""When a job that stood still is said to have gone on, and when its standstill is what it ended in."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ddpdoctor.agent.inside.strip import MAGIC, VERSION, Header
from ddpdoctor.collect import watching
from ddpdoctor.collect.agents import RankProcess
from ddpdoctor.collect.other_nodes import OtherNodes
from ddpdoctor.collect.stall import Rhythm
from ddpdoctor.collect.watching import Ended, Recovered, Stalled, Waiting, Watch
from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.process import Stall
from ddpdoctor.evidence.ranks import JobSize
from tests.standstills import rank, stack, standstill

STOOD = standstill(rank(), rank(stack()))
BOTH_WAIT = standstill(rank(), rank(), facts=(JobSize(ranks=4),))


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

    @property
    def job(self) -> Any:
        return SimpleNamespace(wait=self._wait, drain=lambda: None)

    def _wait(self, _seconds: float) -> int | None:
        if len(self.headers) == 1:
            return self.code
        self.headers.pop(0)
        return None

    def ranks(self, _directory: Path) -> tuple[RankProcess, ...]:
        return (RankProcess(directory=self.directory, pid=os.getpid(), header=self.headers[0]),)

    def while_it_stands_still(self, *_: object) -> Evidence:
        return self.stood

    def at_the_end(self, _code: int, stall: Evidence | None) -> Evidence:
        return stall or Evidence()


def header(*, calls: int, returned: int) -> Header:
    return Header(MAGIC, VERSION, 0, 2, 0, calls, 1, 1, 0, returned)


@pytest.fixture(autouse=True)
def _a_call_that_comes_back_is_settled_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "QuietMoves", lambda: SimpleNamespace(seen=lambda _ranks, _quiet: 0))
    monkeypatch.setattr(watching, "SETTLED_SECONDS", -1.0)


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
        told = {"type": "RuntimeError", "message": "Connection closed by peer"}
        (tmp_path / f"{os.getpid()}.error").write_text(json.dumps(told))
    waits = header(calls=5, returned=4)
    known = Known([waits, waits, waits, later], code, tmp_path)
    monkeypatch.setattr(watching, "find_ranks", known.ranks)
    events = [*Watch(known=known, rhythm=Rhythm(given=0.0)).events()]  # type: ignore[arg-type]
    assert [type(event) for event in events] == [Stalled, *([] if ended_in_it else [Recovered]), Ended]
    assert isinstance(events[-1], Ended)
    assert (events[-1].evidence.one(Stall) is not None, known.notes == []) == (ended_in_it, ended_in_it)


def test_ranks_that_wait_for_a_node_that_nobody_sees_are_granted_what_a_rank_at_work_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rank 0 may be in a long evaluation there: `--kill-on-hang` must not end it."""
    monkeypatch.setattr(Rhythm, "patience", lambda _self, *, moving=False: 600.0 if moving else 0.0)
    for part, event in ((True, Waiting), (False, Stalled)):
        known = Known([header(calls=5, returned=4)] * 3, 0, tmp_path, stood=BOTH_WAIT)
        monkeypatch.setattr(watching, "find_ranks", known.ranks)
        monkeypatch.setattr(OtherNodes, "has_others", part)
        (first, *_) = Watch(known=known, rhythm=Rhythm()).events()  # type: ignore[arg-type]
        assert type(first) is event
        if isinstance(first, Waiting):
            assert first.text == "ranks 0-1 wait for others, and nothing is known here of ranks 2-3, on other nodes"
