"""How the ranks' files reach rank 0 after a job: through a store of the launcher's, or of one's own on the job's old port."""

from __future__ import annotations

import importlib.util
import json
import os
import threading
import time
from argparse import Namespace
from datetime import timedelta
from pathlib import Path

import pytest
from torch.distributed import TCPStore

from ddpdoctor.launch import attendance
from ddpdoctor.transport import files, host_relay, rank_0
from ddpdoctor.transport.bundle import Bundle, ProcessIdentity
from ddpdoctor.transport.files import parts_of, write_files
from ddpdoctor.transport.store import PIECE_BYTES, own_part, put
from tests.free_port import free_port
from tests.waiting import within

PROBE = Path(__file__).parents[2] / "probes" / "file_gather.py"
pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def journals(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(PROBE.parent)
    spec = importlib.util.spec_from_file_location("journals", PROBE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def options(
    folder: Path, port: int, rank: int, *, world_size: int = 2, hosted: bool, deadline: float = 60
) -> Namespace:
    own = folder / str(rank)
    own.mkdir(exist_ok=True)
    return Namespace(
        rank=rank, world_size=world_size, host="127.0.0.1", port=port, hosted=hosted, deadline=deadline, folder=own,
        gathered=folder / "gathered", reported=folder / "reported",
    )  # fmt: skip


def started(function, *arguments) -> threading.Thread:
    thread = threading.Thread(target=function, args=arguments, daemon=True)
    thread.start()
    return thread


def test_files_of_any_size_arrive_and_nobody_leaves_before_the_report(journals, tmp_path: Path) -> None:
    agent = TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
    end = time.monotonic() + 60
    first, second = (options(tmp_path, agent.port, rank, hosted=True) for rank in (0, 1))
    noise = os.urandom(2 * PIECE_BYTES + 1)
    (second.folder / "7.sync.jsonl").write_bytes(noise)
    (second.folder / "7.gave-up").write_text("")
    threads = [started(journals.receive, first, end), started(journals.deliver, second, end)]
    assert within(first.gathered.exists)
    assert (first.folder / "1-7.sync.jsonl").read_bytes() == noise
    assert (first.folder / "1-7.gave-up").read_bytes() == b""
    assert all(thread.is_alive() for thread in threads)
    first.reported.touch()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()


def test_a_rank_whose_files_went_into_the_jobs_own_store_hands_them_in_again(journals, tmp_path: Path) -> None:
    port = free_port()
    job: TCPStore | None = TCPStore("127.0.0.1", port, None, True, timedelta(seconds=30), wait_for_workers=False)
    end = time.monotonic() + 60
    first, second = (options(tmp_path, port, rank, hosted=False) for rank in (0, 1))
    (second.folder / "7.sync.jsonl").write_text("{}\n")
    early = started(journals.deliver, second, end)
    time.sleep(0.5)
    del job  # the job of rank 0 has ended, and with it its store
    late = started(journals.receive, first, end)
    assert within(first.gathered.exists)
    assert (first.folder / "1-7.sync.jsonl").read_text() == "{}\n"
    first.reported.touch()
    for thread in (early, late):
        thread.join(30)
        assert not thread.is_alive()


def test_a_rank_that_never_comes_costs_the_deadline_and_hides_nobody_else(journals, tmp_path: Path) -> None:
    agent = TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
    end = time.monotonic() + 3
    first = options(tmp_path, agent.port, 0, world_size=3, hosted=True)
    third = options(tmp_path, agent.port, 2, world_size=3, hosted=True)
    (third.folder / "9.sync.jsonl").write_text("{}\n")
    first.reported.touch()
    threads = [started(journals.receive, first, end), started(journals.deliver, third, end)]
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert [path.name for path in first.folder.iterdir()] == ["2-9.sync.jsonl"]


def test_a_rank_waits_for_rank_0_as_long_as_its_job_runs_and_no_longer_than_the_deadline_after(
    journals, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(journals, "TURN_SECONDS", 0.3)
    job: TCPStore | None = TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
    second = options(tmp_path, job.port, 1, hosted=False, deadline=1)
    raised = threading.Event()

    def deliver() -> None:
        with pytest.raises(TimeoutError):
            journals.deliver(second, time.monotonic() + 1)
        raised.set()

    started(deliver)
    assert not raised.wait(3)
    del job
    assert raised.wait(30)


def account(rank: int, files: dict[str, list[bytes]]) -> bytes:
    bundle = Bundle()
    bundle.add(ProcessIdentity(rank=rank, world_size=3, host="liar", pid=9, clock="liar"), files)
    return b"9\n" + bundle.encode()


@pytest.mark.parametrize(
    "lies",
    [
        [b"9\nno bundle", account(2, {})],
        [account(2, {"a\0b": [b"x"], "..": [b"x"], "": [b"x"]})],
        [account(2, {}), account(0, {"trace": [b"x"]}), account(-1, {"t": [b"x"]}), account(3, {"t": [b"x"]})],
    ],
    ids=["no bundle", "names", "ranks"],
)
def test_a_host_that_sends_garbage_costs_only_itself(
    lies: list[bytes], journals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rank_0, "LEAVE_SECONDS", 0.2)  # who lies never says that it has left
    agent = TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
    first, second = (options(tmp_path, agent.port, rank, world_size=3, hosted=True) for rank in (0, 1))
    (second.folder / "trace").write_bytes(b"whole")
    (first.folder / "trace").write_bytes(b"own")
    liar = own_part(agent, "sync")
    for lie in lies:
        put(liar, f"bundle/{liar.add('bundles', 1)}", lie)
    threads = [
        started(f, each, time.monotonic() + 60) for f, each in ((journals.receive, first), (journals.deliver, second))
    ]
    assert within(first.gathered.exists)
    first.reported.touch()
    for thread in threads:
        thread.join(60)
    assert (first.folder / "1-trace").read_bytes() == b"whole"
    assert {path.name for path in first.folder.iterdir()} <= {"trace", "1-trace", "2-", "2-.."}
    assert (first.folder / "trace").read_bytes() == b"own"


@pytest.mark.parametrize("room", [1 << 30, 59_000], ids=["room for all", "no room for one rank"])
def test_what_is_larger_than_a_message_comes_in_portions_and_what_has_no_room_is_named(
    journals, tmp_path: Path, monkeypatch, room: int
) -> None:
    """A rank's traces were one message once, and those above 1 GiB never came."""
    for module in (rank_0, host_relay):
        monkeypatch.setattr(module, "MOST_SENT_BYTES", 4_000)
    monkeypatch.setattr(host_relay, "MOST_BYTES", 8_000)
    monkeypatch.setattr(files, "MOST_BYTES", 1_500)
    monkeypatch.setattr(rank_0, "MOST_HELD_BYTES", room)
    monkeypatch.setenv(attendance.VARIABLE, str(noted := tmp_path / "attendance.json"))
    agent = TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
    end = time.monotonic() + 60
    first, small, large = (options(tmp_path, agent.port, rank, world_size=3, hosted=True) for rank in range(3))
    monkeypatch.setattr(journals, "meeting_name", lambda *parts: host_relay.meeting_name(tmp_path, *parts))
    (small.folder / "1.sync.jsonl").write_bytes(b"small\n")
    noise = os.urandom(50_000).hex().encode()  # pieces of 1,500 bytes and one of 1,000: 500 bytes stay free
    (large.folder / "2.sync.jsonl").write_bytes(noise)
    threads = [started(journals.receive, first, end), started(journals.deliver, small, end)]
    threads.append(started(journals.deliver, large, end))
    assert within(first.gathered.exists)
    unread = json.loads(first.gathered.read_text(encoding="utf-8"))
    assert (first.folder / "1-1.sync.jsonl").read_bytes() == b"small\n"
    if room > len(noise):
        assert (first.folder / "2-2.sync.jsonl").read_bytes() == noise
        assert unread == []
    else:
        assert not (first.folder / "2-2.sync.jsonl").exists()
        assert unread[-1] == "what rank 2 recorded did not come whole, and was left out"
        assert "rank 0 has no room for" in unread[0]
    assert json.loads(noted.read_text(encoding="utf-8")) == {"present": None, "complete": True}
    first.reported.touch()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()


def test_of_files_that_are_alike_each_long_line_travels_once_and_in_messages_of_some_size(tmp_path: Path) -> None:
    """Replicas that agree wrote the same fingerprints: what they have in common is a part of one message."""
    same = b"".join(b"%d %b\n" % (number, bytes([65 + number]) * 1000) for number in range(20))
    bundle, folders = Bundle(), [tmp_path / str(rank) for rank in range(1, 5)]
    for rank, folder in enumerate(folders, 1):
        folder.mkdir()
        (folder / "7.sync.jsonl").write_bytes(b"rank %d\n" % rank + same + b"no end of line")
        (folder / "empty").write_bytes(b"")
        bundle.add(ProcessIdentity(rank=rank, world_size=5, host="a", pid=rank, clock="a"), parts_of(folder))
    portions = [*bundle.portions(10_000)]
    assert len(bundle.encode()) < 1.3 * len(same)
    assert len(portions) == 3
    assert all(sum(map(len, portion.bodies.values())) <= 10_000 for portion in portions)
    assert sum(len(portion.encode()) for portion in portions) < 1.4 * len(same)
    whole, out = Bundle(), tmp_path / "out"
    for portion in portions:
        whole.merge(Bundle.decode(portion.encode()))
    out.mkdir()
    write_files(whole, out, 5)
    for rank, folder in enumerate(folders, 1):
        for file in folder.iterdir():
            assert (out / f"{rank}-{file.name}").read_bytes() == file.read_bytes()
