"""A rank without our agent dumps its recorder on request through its named pipe; other files and old dumps are left alone."""

from __future__ import annotations

import os
import pickle
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ddpdoctor.ranks.own_dumps import OLD_DEFAULT, PIPE, Requests, collect, prefixes, request
from ddpdoctor.ranks.target import Target
from tests.ranks.test_fr_dump_files import document

DEADLINE_SECONDS = 20.0


@pytest.fixture
def rank_3() -> Iterator[Target]:
    """A process that stands for rank 3."""
    process = subprocess.Popen(["sleep", "60"])
    try:
        yield Target(rank=3, pid=process.pid)
    finally:
        process.kill()
        process.wait()


def own(rank: int, seconds: float = 0.0, thread: int | None = None) -> dict[str, Any]:
    """A dump whose calls were made now, or so many seconds ago, by a thread at this address if one is given."""
    written = document(rank)
    for entry in written["entries"]:
        entry["time_created_ns"] = int((time.time() - seconds) * 1e9)
        entry.pop("thread_id", None)
        if thread is not None:
            entry["thread_id"] = str(thread)
    return written


def answers(folder: Path) -> threading.Thread:
    """A thread that behaves like NCCL's heartbeat monitor: it reads the pipe, then writes the dump in two parts."""
    os.mkfifo(folder / "pipe_3.pipe")
    descriptor = os.open(folder / "pipe_3.pipe", os.O_RDONLY | os.O_NONBLOCK)

    def dump_on_request() -> None:
        until = time.monotonic() + DEADLINE_SECONDS
        while time.monotonic() < until:
            try:
                if os.read(descriptor, 128):
                    (folder / "dump_3").write_bytes(pickle.dumps(own(0)))
                    break
            except BlockingIOError:
                pass
            time.sleep(0.01)
        os.close(descriptor)

    thread = threading.Thread(target=dump_on_request)
    thread.start()
    return thread


def test_a_rank_is_asked_through_its_pipe_and_its_dump_is_read(tmp_path: Path, rank_3: Target) -> None:
    environ = {PIPE: f"{tmp_path}/pipe_", "TORCH_FR_DUMP_TEMP_FILE": f"{tmp_path}/dump_"}
    thread = answers(tmp_path)
    requests = request([rank_3], environ)
    ((rank, record),) = collect([rank_3], environ, requests)
    thread.join()
    assert [*requests.at] == [3]
    assert (rank, len(record)) == (3, len(document(0)["entries"]))


def test_nobody_waits_for_a_pipe_that_nobody_reads_or_that_is_a_file(tmp_path: Path, rank_3: Target) -> None:
    environ = {PIPE: f"{tmp_path}/pipe_", "TORCH_FR_DUMP_TEMP_FILE": f"{tmp_path}/dump_"}
    pipe = tmp_path / "pipe_3.pipe"
    assert not request([rank_3], environ).at
    os.mkfifo(pipe)
    assert not request([rank_3], environ).at
    pipe.unlink()
    pipe.write_text("precious")
    assert not request([rank_3], environ).at
    assert pipe.read_text() == "precious"
    assert not list(collect([rank_3], environ, request([rank_3], {})))


def test_a_process_that_has_ended_is_asked_for_nothing(tmp_path: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    os.mkfifo(tmp_path / "pipe_3.pipe")
    reader = os.open(tmp_path / "pipe_3.pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert not request([Target(rank=3, pid=ended.pid)], {PIPE: f"{tmp_path}/pipe_"}).at
        assert os.read(reader, 1) == b""
    finally:
        os.close(reader)


def test_a_dump_from_before_the_rank_began_is_not_its_own(tmp_path: Path, rank_3: Target) -> None:
    environ = {"XDG_CACHE_HOME": str(tmp_path)}
    dump = tmp_path / "torch" / "comm_lib_trace_rank_3"
    dump.parent.mkdir()
    dump.write_bytes(pickle.dumps(own(0)))
    assert [rank for rank, _ in collect([rank_3], environ, request([rank_3], environ))] == [3]
    os.utime(dump, (1, 1))
    assert not [*collect([rank_3], environ, request([rank_3], environ))]


def test_what_another_job_wrote_to_the_same_path_is_not_the_ranks_own(tmp_path: Path, rank_3: Target) -> None:
    """The file is new. Its calls are older than the rank, or its threads are not in the rank's memory."""
    environ = {"TORCH_FR_DUMP_TEMP_FILE": f"{tmp_path}/dump_"}
    begin = int(Path(f"/proc/{rank_3.pid}/maps").read_text().partition("-")[0], 16)
    for written, read in ((own(0, seconds=3600), 0), (own(0, thread=begin - 1), 0), (own(0, thread=begin), 1)):
        (tmp_path / "dump_3").write_bytes(pickle.dumps(written))
        assert len(list(collect([rank_3], environ, Requests(at={})))) == read


def test_dumps_are_where_the_jobs_variables_say_or_where_pytorch_puts_them() -> None:
    assert prefixes({"TORCH_FR_DUMP_TEMP_FILE": "/a/b_", "HOME": "/home/me"}) == ("/a/b_",)
    assert prefixes({"TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "/a/c_"}) == ("/a/c_",)
    assert prefixes({"HOME": "/home/me"}) == ("/home/me/.cache/torch/comm_lib_trace_rank_", OLD_DEFAULT)
    assert prefixes({"HOME": "/home/me", "XDG_CACHE_HOME": "/c"})[0] == "/c/torch/comm_lib_trace_rank_"
