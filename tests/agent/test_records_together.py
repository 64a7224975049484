"""The records of one audit are written by one call of the system, whatever becomes of the audit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from ddpdoctor.agent.inside.rank_process import Rank
from ddpdoctor.agent.inside.schema.hardware_records import Device
from ddpdoctor.agent.inside.schema.training_trace import segment_name
from ddpdoctor.agent.inside.trace_writer import TraceWriter
from ddpdoctor.ranks.training_trace_files import read_trace


class OneTrace:
    """A trace and what is in its file so far: the names in the records."""

    def __init__(self, folder: Path) -> None:
        rank = Rank(str(folder))
        rank.place((), {})
        self.trace, self._path = TraceWriter(rank), Path(rank.path(segment_name(0)))

    def names(self) -> list[str]:
        return [one.name for one in read_trace(self._path) if isinstance(one, Device)] if self._path.exists() else []


@pytest.fixture
def one(tmp_path: Path) -> Iterator[OneTrace]:
    made = OneTrace(tmp_path)
    yield made
    made.trace.close()


def fails(trace: TraceWriter) -> None:
    with trace.together:
        trace.write(Device("before the error"))
        raise KeyError


def test_records_of_a_block_are_written_when_it_ends(one: OneTrace) -> None:
    with one.trace.together:
        one.trace.write(Device("first"))
        one.trace.write(Device("second"))
        assert one.names() == []
    assert one.names() == ["first", "second"]
    one.trace.write(Device("third"))
    assert one.names() == ["first", "second", "third"]


def test_records_of_a_block_that_fails_are_written(one: OneTrace) -> None:
    with pytest.raises(KeyError):
        fails(one.trace)
    assert one.names() == ["before the error"]


def test_a_block_that_a_signal_left_where_it_began_holds_nothing_back(one: OneTrace) -> None:
    one.trace.together.__enter__()
    one.trace.write(Device("in the block"))
    one.trace.leave_to_the_job(KeyboardInterrupt())
    one.trace.write(Device("the end"))
    assert one.names() == ["in the block", "the end"]


def test_another_thread_does_not_wait_for_the_block(one: OneTrace) -> None:
    with one.trace.together:
        one.trace.write(Device("in the block"))
        other = Thread(target=one.trace.write, args=(Device("beside it"),))
        other.start()
        other.join()
        assert one.names() == ["beside it"]
    assert one.names() == ["beside it", "in the block"]
