"""A job's own hooks, faulthandler and signal handlers work as without us, and ours work beside them, alone and together."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ddpdoctor.agent import given_up, job_environment
from ddpdoctor.ranks.agent_files import RankProcess, find_ranks
from tests.waiting import PROGRAM_SECONDS

BEFORE = 'dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}", rank=0, world_size=1)\n'
IMPORTS = "import ctypes, faulthandler, os, signal, sys, threading, torch.distributed as dist\n"
EXCEPTHOOK = "sys.excepthook = lambda kind, error, trace: print('my hook saw', kind.__name__, flush=True)\n"
FAULTHANDLER = "faulthandler.enable(open(sys.argv[2], 'w'))\n"
SIGNALS = (
    "for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT):\n"
    "    signal.signal(number, lambda number, frame: print('my handler got', signal.Signals(number).name, flush=True))\n"
)
THREADS = "threading.excepthook = lambda args: print('my thread hook saw', args.exc_type.__name__, flush=True)\n"
SIGNALLED = "for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT): os.kill(os.getpid(), number)\n"
THREAD = "thread = threading.Thread(target=lambda: 1 / 0); thread.start(); thread.join()\n"
HANDLES = "try:\n    1 / 0\nexcept ZeroDivisionError:\n    dist.barrier()\n    dist.barrier()\n"
BEAT = "beat = threading.Thread(target=lambda: dist.barrier()); beat.start(); beat.join()\n"
RAISE = "def train():\n    raise KeyError('x')\ntrain()\n"
CRASH = "def train():\n    ctypes.string_at(0)\ntrain()\n"
HANDLED = [f"my handler got {name}" for name in ("SIGTERM", "SIGUSR1", "SIGINT")]


def rank(code: str, directory: Path, tmp_path: Path) -> tuple[subprocess.CompletedProcess[str], RankProcess]:
    """A process that runs `code` with the agent in it, and what the agent wrote."""
    script = tmp_path / "train.py"
    script.write_text(IMPORTS + code)
    ended = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "store"), str(tmp_path / "fault.txt")],
        env={**os.environ, **job_environment(["watch"], directory, os.environ)},
        capture_output=True, text=True, timeout=PROGRAM_SECONDS, check=False,
    )  # fmt: skip
    assert not given_up(directory)
    (found,) = find_ranks(directory)
    return ended, found


def test_an_excepthook_from_before_the_group(short_dir: Path, tmp_path: Path) -> None:
    ended, written = rank(EXCEPTHOOK + BEFORE + RAISE, short_dir, tmp_path)
    assert (ended.returncode, ended.stdout.splitlines(), ended.stderr) == (1, ["my hook saw KeyError"], "")
    recorded = written.error()
    assert recorded is not None
    assert (recorded[0].type, recorded[0].stack[0].function) == ("KeyError", "train")


def test_a_faulthandler_of_the_users_keeps_its_file(short_dir: Path, tmp_path: Path) -> None:
    ended, written = rank(FAULTHANDLER + BEFORE + CRASH, short_dir, tmp_path)
    assert ended.returncode == -signal.SIGSEGV
    assert "in train" in (tmp_path / "fault.txt").read_text()
    assert written.crash() == ()


def test_a_call_tells_the_error_that_is_handled_and_the_thread_that_makes_it(short_dir: Path, tmp_path: Path) -> None:
    _, written = rank(BEFORE + HANDLES + BEAT, short_dir, tmp_path)
    (handled,) = written.call_log().calls().handled
    assert (handled.group, handled.seq, handled.error.type) == ("0", 1, "ZeroDivisionError")
    assert [(Path(frame.file).name, frame.line) for frame in handled.error.stack] == [("train.py", 4)]
    calls = written.call_log().flight_record()
    assert calls is not None
    assert [calls.stack_of(entry)[-1].function for entry in range(3)] == ["<module>", "<module>", "_bootstrap"]


def test_all_of_them_together_with_signal_handlers_and_an_excepthook_from_after_the_group(
    short_dir: Path, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('my sitecustomize ran', flush=True)")
    code = FAULTHANDLER + SIGNALS + THREADS + BEFORE + EXCEPTHOOK + SIGNALLED + THREAD + RAISE
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(tmp_path))
        ended, written = rank(code, short_dir, tmp_path)
    assert ended.returncode == 1
    assert ended.stdout.splitlines() == [
        "my sitecustomize ran", *HANDLED, "my thread hook saw ZeroDivisionError", "my hook saw KeyError",
    ]  # fmt: skip
    recorded = written.error()
    assert recorded is not None
    assert recorded[0].type == "KeyError"
    (threads,) = written.thread_errors()
    assert [(one.error.type, one.error.stack[0].function) for one in threads.each] == [
        ("ZeroDivisionError", "<lambda>")
    ]
    assert written.left_at() is not None


def test_a_torch_without_a_worker_server_is_said_to_have_none_and_the_rest_is_kept(
    short_dir: Path, tmp_path: Path
) -> None:
    hidden = "import torch._C._distributed_c10d as c10d\ndel c10d._WorkerServer\n"
    script = tmp_path / "train.py"
    script.write_text(IMPORTS + hidden + BEFORE + RAISE)
    ended = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "store")],
        env={**os.environ, **job_environment(["watch"], short_dir, os.environ)},
        capture_output=True, text=True, timeout=PROGRAM_SECONDS, check=False,
    )  # fmt: skip
    assert ended.returncode == 1
    assert given_up(short_dir) == (
        (
            "the agent gave up on the worker server: this torch has no worker server (2.4 and later have one), so stacks "
            "need py-spy (rank 0)"
        ),
    )
    (written,) = find_ranks(short_dir)
    recorded = written.error()
    assert recorded is not None
    assert recorded[0].type == "KeyError"
