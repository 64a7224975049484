"""The agent starts in ranks only, leaves everything else as it was, and never raises into the job."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ddpdoctor.agent import given_up, job_environment
from ddpdoctor.agent.inside.post_import_hook import after_import
from ddpdoctor.agent.inside.process.thread_excepthook import record_thread_errors
from ddpdoctor.agent.inside.rank_process import Rank
from ddpdoctor.agent.inside.schema.rank_end import GaveUp
from ddpdoctor.ranks.agent_files import find_ranks
from tests.waiting import PROGRAM_SECONDS

RANK = """
import os, sys, torch.distributed as dist
dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}", rank=0, world_size=1)
print(sorted(name.partition(".")[2] for name in os.listdir(os.environ["DDPDOCTOR_AGENT_DIR"])))
print([entry for entry in sys.path if "ddpdoctor" in entry and "agent" in entry])
dist.destroy_process_group()
"""


def python(
    code: str, *arguments: str, directory: Path, features: str = "watch", extra_path: str = "", flags=()
) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PYTHONPATH": extra_path} if extra_path else {**os.environ}
    environ |= job_environment(features.split(","), directory, environ)
    return subprocess.run(
        [sys.executable, *flags, "-c", code, *arguments],
        env=environ,
        capture_output=True,
        text=True,
        timeout=PROGRAM_SECONDS,
        check=False,
    )


def test_a_rank_gets_its_server_and_nothing_shows(short_dir: Path, tmp_path: Path) -> None:
    ended = python(RANK, str(tmp_path / "store"), directory=short_dir)
    assert ended.returncode == 0, ended.stderr
    files, path = ended.stdout.splitlines()
    assert "sock" in files
    assert path == "[]"
    assert "Server" not in ended.stderr
    assert not given_up(short_dir)


def test_a_process_that_is_no_rank_leaves_nothing(short_dir: Path) -> None:
    ended = python(
        "import sys; print([name for name in ('json', 'socket', 'ctypes', 'traceback') if name in sys.modules])",
        directory=short_dir,
    )
    assert (ended.stdout, ended.stderr) == ("[]\n", "")
    assert not list(short_dir.iterdir())


def test_what_fails_is_given_up_and_said(tmp_path: Path) -> None:
    too_long = tmp_path / ("x" * 100)
    too_long.mkdir()
    ended = python(RANK, str(tmp_path / "store"), directory=too_long, features="watch,no_such_feature")
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
    said = given_up(too_long)
    assert any(line.startswith("the agent gave up on loading no_such_feature: ModuleNotFoundError") for line in said)
    assert any("the socket path has" in line and line.endswith("(rank 0)") for line in said)


def test_the_users_own_sitecustomize_still_runs(short_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import builtins; builtins.MINE = __name__")
    ended = python(
        "import sitecustomize; print(MINE, sitecustomize.__file__)", directory=short_dir, extra_path=str(tmp_path)
    )
    assert ended.stdout == f"sitecustomize {tmp_path / 'sitecustomize.py'}\n", ended.stderr


@pytest.mark.parametrize("flag", ["-I", "-S", "-E"])
def test_python_that_ignores_its_environment_runs_without_the_agent(flag: str, short_dir: Path) -> None:
    ended = python("import sys; print('_ddpdoctor_inside' in sys.modules)", directory=short_dir, flags=[flag])
    assert (ended.returncode, ended.stdout) == (0, "False\n"), ended.stderr


def test_a_broken_line_of_a_rank_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "7.gave-up").write_text('[3, "wh\n' + json.dumps(GaveUp(3, "x", "y")) + "\n")
    assert given_up(tmp_path) == ("the agent gave up on x: y (rank 3)",)


def test_an_import_goes_on_where_following_it_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A torch without the function that we follow, and a finder of the old kind, which Python passes over."""
    (tmp_path / "followed_module.py").write_text("there = True\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", [object(), *sys.meta_path])
    after_import("followed_module", lambda module: module.not_there, Rank(str(tmp_path)))
    assert importlib.import_module("followed_module").there
    (said,) = given_up(tmp_path)
    assert said.startswith("the agent gave up on following followed_module: AttributeError: ")


UNCOUNTED = """
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.testing._internal.distributed.fake_pg import FakeStore
dist.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
dist.all_reduce(torch.ones(2))
dist.send(torch.ones(2), 1)
model = DistributedDataParallel(torch.nn.Linear(2, 2))
model(torch.ones(1, 2))
print("trained")
"""


def test_a_backend_that_gives_its_calls_no_numbers_trains_on(short_dir: Path) -> None:
    """MPI, and backends that come from elsewhere."""
    ended = python(UNCOUNTED, directory=short_dir)
    assert (ended.returncode, ended.stdout) == (0, "trained\n"), ended.stderr
    (rank,) = find_ranks(short_dir)
    assert rank.header.forwards == 1
    assert not given_up(short_dir)


class MuteError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def test_the_users_thread_hook_runs_where_the_error_cannot_be_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    monkeypatch.setattr(threading, "excepthook", seen.append)
    rank = Rank(str(tmp_path))
    rank.place((), {"rank": 0, "world_size": 1})
    record_thread_errors(rank)
    shown = threading.ExceptHookArgs((MuteError, MuteError(), None, None))
    threading.excepthook(shown)
    assert seen == [shown]
    assert given_up(tmp_path) == ("the agent gave up on recording a thread's error: RuntimeError: no words (rank 0)",)


LOST = """
import os, torch.distributed as dist
del os.environ["RANK"]
dist.init_process_group("gloo")
"""


def test_a_rank_that_lost_its_variables_is_still_known_by_what_the_launcher_said(
    short_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"RANK": "2", "WORLD_SIZE": "3", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    ended = python(LOST, directory=short_dir)
    assert "environment variable RANK expected" in ended.stderr
    assert [rank.rank for rank in find_ranks(short_dir)] == [2]


def test_a_forked_child_is_no_rank_until_it_joins_a_job_itself(tmp_path: Path) -> None:
    rank = Rank(str(tmp_path))
    assert not rank.is_here
    rank.place((), {"rank": 0, "world_size": 1})
    assert rank.is_here
    child = os.fork()
    if not child:
        was_here = rank.is_here
        rank.place((), {"rank": 0, "world_size": 1})
        os._exit(not (rank.is_here and not was_here))
    assert os.waitpid(child, 0)[1] == 0
    assert rank.is_here
