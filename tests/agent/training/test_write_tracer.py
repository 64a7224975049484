"""The line that writes what is watched, found by looking after every line of the user's code."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from ddpdoctor.agent.inside.rank_process import Rank
from ddpdoctor.agent.inside.trace_writer import TraceWriter
from ddpdoctor.agent.inside.training import write_tracer
from ddpdoctor.agent.inside.training.optimizer_settings import Settings
from ddpdoctor.agent.inside.training.write_tracer import Writes
from ddpdoctor.agent.inside.training.write_watch import WriteWatch


class Made(NamedTuple):
    one: int


def writing(folder: Path) -> tuple[Writes, TraceWriter]:
    rank = Rank(str(folder))
    rank.place((), {})
    trace = TraceWriter(rank)
    return Writes(trace.observing), trace


def halve(settings: dict[str, float]) -> None:
    settings["lr"] /= 2
    settings["seen"] = 1


def here() -> int:
    return sys._getframe(1).f_lineno


def test_each_line_that_changes_a_value_is_noted_in_a_function_too(tmp_path: Path) -> None:
    settings, other = {"lr": 1.0}, {"lr": 1.0}
    writes, _ = writing(tmp_path)
    writes.watch({"settings": lambda: settings["lr"], "other": lambda: other["lr"]})
    settings["momentum"] = 0.9
    first = here() + 1
    settings["lr"] = 2.0
    halve(settings)
    writes.settle()
    settings["lr"] = 3.0
    found = writes.take()
    assert list(found) == ["settings"]
    halving = halve.__code__.co_firstlineno + 1
    assert [(line, function) for _, line, function in found["settings"]] == [
        (first, "test_each_line_that_changes_a_value_is_noted_in_a_function_too"),
        (halving, "halve"),
    ]
    assert writes.take() == {}
    assert sys.gettrace() is None


def test_what_library_code_writes_after_it_made_a_named_tuple_is_noted_at_the_users_line(tmp_path: Path) -> None:
    """`load_state_dict` does so: the code of a named tuple was compiled from a text, and is nobody's file."""
    library: dict[str, Any] = {}
    text = "def load(values, made):\n    made(1)\n    values.sort()\n"
    exec(compile(text, torch.__file__, "exec"), library)
    values = [3, 1, 2]
    writes, _ = writing(tmp_path)
    writes.watch({"values": lambda: list(values)})
    line = here() + 1
    library["load"](values, Made)
    writes.settle()
    assert [(file, number) for file, number, _ in writes.take()["values"]] == [(__file__, line)]


def test_what_library_code_writes_is_noted_at_the_users_line(tmp_path: Path) -> None:
    values = [3, 1, 2]
    writes, _ = writing(tmp_path)
    writes.watch({"values": lambda: list(values)})
    expected = here() + 1
    values.sort(key=abs)
    writes.settle()
    assert [line for _, line, _ in writes.take()["values"]] == [expected]


def test_a_debugger_keeps_its_trace_function(tmp_path: Path) -> None:
    writes, _ = writing(tmp_path)

    def debugger(*_: object) -> None:
        return None

    sys.settrace(debugger)
    try:
        writes.watch({"nothing": lambda: 0})
        assert sys.gettrace() is debugger
    finally:
        sys.settrace(None)
    writes.settle()


def test_an_error_while_looking_is_ours_alone(tmp_path: Path) -> None:
    looked: list[int] = []

    def fails() -> int:
        looked.append(1)
        return 1 // (2 - len(looked))

    writes, trace = writing(tmp_path)
    watched: dict[str, Callable[[], object]] = {"fails": fails}
    writes.watch(watched)
    after = len(looked)
    writes.settle()
    assert after >= 1
    assert not trace.alive
    assert list(tmp_path.glob("*.gave-up"))


@pytest.mark.parametrize("waits", [True, False])
def test_only_processor_time_ends_a_watch(tmp_path: Path, *, waits: bool) -> None:
    rank = Rank(str(tmp_path))
    rank.place((), {})
    values = [0]
    writes = Writes(TraceWriter(rank).observing, most_seconds=0.2)
    writes.watch({"values": lambda: list(values)})
    until = time.thread_time() + 0.3
    while not waits and time.thread_time() < until:
        nothing()
    time.sleep(0.25)
    values[0] = 1
    nothing()
    writes.settle()
    assert ("values" in writes.take()) is waits
    assert writes.ended_early is not waits


def nothing() -> None:
    """Called, and no more."""


def test_a_watch_that_ends_early_says_so_and_blames_no_later_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_tracer, "MOST_CALLS", 3)
    rank = Rank(str(tmp_path))
    rank.place((), {})
    values = [0]
    writes = Writes(TraceWriter(rank).observing, most_seconds=60.0)
    writes.watch({"values": lambda: list(values)})
    nothing()
    assert not writes.ended_early
    nothing()
    nothing()
    nothing()
    assert writes.ended_early
    values[0] = 1
    writes.settle()
    assert writes.take() == {}


@pytest.mark.skipif(sys.version_info < (3, 11), reason="lines are not looked for")
def test_lines_of_an_earlier_backward_of_the_window_are_kept(tmp_path: Path) -> None:
    """Gradients are accumulated: two forwards and backwards, one step."""
    rank = Rank(str(tmp_path))
    rank.place((), {})
    unwrapped: Any = None
    weights, gradients = [0], [0]
    watch = WriteWatch(TraceWriter(rank), Settings(), unwrapped, lambda: list(weights), lambda: list(gradients))
    watch.audit()
    expected = []
    for value in (1, 2):
        watch.after_backward()
        if value == 1:
            expected.append(here() + 1)
            weights[0] = value
        else:
            expected.append(here() + 1)
            weights[0] = value
            gradients[0] = value
        watch.settle()
    assert not watch.is_partial
    wrote = {what: [line for _, line, _ in lines] for what, lines in watch.take().items()}
    assert wrote == {"given weights": expected, "gradients": [expected[1] + 1]}


@pytest.mark.skipif(sys.version_info < (3, 11), reason="lines are not looked for")
def test_a_write_between_forward_and_backward_leaves_the_watch_partial(tmp_path: Path) -> None:
    rank = Rank(str(tmp_path))
    rank.place((), {})
    unwrapped: Any = None
    weights = [0]
    watch = WriteWatch(TraceWriter(rank), Settings(), unwrapped, lambda: list(weights), list)
    watch.audit()
    weights[0] = 1
    watch.after_backward()
    watch.settle()
    assert watch.is_partial
    watch.take()
    assert not watch.is_partial
