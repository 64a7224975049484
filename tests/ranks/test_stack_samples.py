"""The samples of py-spy in its raw format: one line a stack, from the outermost function on, with the number of samples."""

from __future__ import annotations

from ddpdoctor.evidence.frames import Frame
from ddpdoctor.ranks.stack_samples import _of_main

TEXT = """\
thread (7): "MainThread";<module> (train.py:30);main (train.py:20);Model.forward (/a b (c)/model.py:5) 31
thread (7): "MainThread";<module> (train.py:30);wait (native) 2
thread (8): "Thread-1";run (threading.py:1) 33
thread (7): "MainThread";<module> (train.py:30) many
thread (7)
Wrote raw flamegraph data
"""


def test_the_stacks_of_one_thread_are_counted() -> None:
    outer = Frame(file="train.py", line=30, function="<module>")
    inner = Frame(file="/a b (c)/model.py", line=5, function="forward")
    main = Frame(file="train.py", line=20, function="main")
    assert _of_main(TEXT, 7) == {(inner, main, outer): 31, (outer,): 2}
