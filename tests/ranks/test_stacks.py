"""Stacks of a live process, and the words for why there are none."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ddpdoctor.logs.faulthandler_stacks import frames_of_crash, from_faulthandler
from ddpdoctor.ranks import stacks
from ddpdoctor.ranks.stacks import NoStacks, addresses_of, integers_of, py_spy, variables_of

SLEEPER = (
    "import time\nclass Job:\n    def wait(self):\n        print('ready', flush=True); time.sleep(600)\nJob().wait()\n"
)


def test_py_spy_tells_the_main_threads_frames_by_their_own_names() -> None:
    process = subprocess.Popen([sys.executable, "-c", SLEEPER], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        (main,) = [thread for thread in py_spy(process.pid) if thread.main]
        assert [frame.function for frame in main.frames] == ["wait", "<module>"]
        assert not main.active
    finally:
        process.kill()
        process.communicate()


def test_a_process_that_is_gone_or_no_python_is_said_to_be_so() -> None:
    process = subprocess.Popen(["sleep", "600"])
    try:
        with pytest.raises(NoStacks, match="py-spy: "):
            py_spy(process.pid)
    finally:
        process.kill()
        process.wait()
    with pytest.raises(NoStacks, match=f"process {process.pid} has ended"):
        py_spy(process.pid)


def test_one_integer_of_a_function_is_read_and_nothing_else() -> None:
    program = (
        "import time\ndef _wrap(fn, i, text):\n    fn(i)\ndef wait(i):\n    print('ready', flush=True); time.sleep(600)\n"
        "_wrap(wait, 3, '4')\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()

        def read(function: str, name: str) -> dict[int, int]:
            return integers_of([process.pid], file="<string>", function=function, name=name)

        assert read("_wrap", "i") == {process.pid: 3}
        assert read("_wrap", "text") == read("_wrap", "fn") == read("other", "i") == {}
    finally:
        process.kill()
        process.communicate()


def test_an_address_is_read_from_two_variables_of_a_function() -> None:
    program = (
        "import time\ndef connect(host, port, odd):\n    print('ready', flush=True); time.sleep(600)\n"
        "connect('node-7.lan', 29500, 'a b')\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()

        def read(host: str, port: str) -> dict[int, str]:
            return addresses_of([process.pid], file="<string>", function="connect", host=host, port=port)

        assert read("host", "port") == {process.pid: "node-7.lan:29500"}
        assert read("odd", "port") == read("host", "odd") == read("host", "other") == {}
    finally:
        process.kill()
        process.communicate()


def test_without_py_spy_the_answer_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacks.shutil, "which", lambda *_args, **_named: None)
    with pytest.raises(NoStacks, match="pip install py-spy"):
        py_spy(1)


def test_faulthandlers_text_is_read() -> None:
    text = (
        "Fatal Python error: Aborted\n\n"
        'Thread 0x00007f73cd2256c0 [ddpdoctor] (most recent call first):\n  File "/x/answers.py", line 31 in _serve\n\n'
        "Current thread 0x00007f73ee9dcb80 (most recent call first):\n"
        '  File "/job/train.py", line 16 in step\n  File "/job/train.py", line 40 in <module>\n'
    )
    other, main = from_faulthandler(text)
    assert (other.name, other.main, main.main) == ("ddpdoctor", False, True)
    assert [(frame.line, frame.function) for frame in main.frames] == [(16, "step"), (40, "<module>")]


def test_the_thread_that_crashed_is_shown_and_not_the_main_one() -> None:
    """Where a thread of torch crashes that runs no line of the program, the main thread tells more."""
    text = (
        "Fatal Python error: Killed\n\n"
        '{} 0x00007f73cd2256c0 (most recent call first):\n  File "/job/memory.py", line 33 in run\n\n'
        'Thread 0x00007f73ee9dcb80 (most recent call first):\n  File "/job/train.py", line 40 in <module>\n'
    )
    (frame,) = frames_of_crash(text.format("Current thread"))
    assert (frame.file, frame.line) == ("/job/memory.py", 33)
    (frame,) = frames_of_crash(text.format("Thread"))
    assert (frame.file, frame.line) == ("/job/train.py", 40)


def test_what_the_functions_of_the_user_count_is_read_at_one_line() -> None:
    program = (
        "def validate(limit, tensor):\n    seen, total = 0, 0.5\n    while seen < limit:\n"
        "        print(seen, flush=True); input()\n"
        "        seen += 1; total -= 2\nvalidate(1 << 20, [1])\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        for turn in (0, 1):
            assert process.stdout.readline() == f"{turn}\n"
            found = variables_of([process.pid])[process.pid].numbers
            assert {key[2:]: number for key, number in found.items()} == {
                ("validate", "limit"): 1 << 20,
                ("validate", "seen"): turn,
                ("validate", "total"): 0.5 - 2 * turn,
            }
            others = variables_of([process.pid])[process.pid].others
            assert {key[3] for key in others} == {"tensor"}
            process.stdin.write("\n")
            process.stdin.flush()
    finally:
        process.kill()
        process.communicate()
