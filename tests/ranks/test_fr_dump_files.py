"""Recorder dumps: real ones of gloo, and everything else that a directory may hold under such a name."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ddpdoctor.analysis.collectives.recorders.timeline import derive
from ddpdoctor.engine import diagnose
from ddpdoctor.errors import UndecidedError
from ddpdoctor.evidence.recorder import FlightRecord, State
from ddpdoctor.ranks import fr_dump_files
from ddpdoctor.ranks.fr_dump_files import Dump, decode, rank_of, read_dump, read_dumps
from ddpdoctor.ranks.fr_parser import record_of
from ddpdoctor.workflows.diagnose import gather
from tests.waiting import PROGRAM_SECONDS

DATA = Path(__file__).parents[1] / "data" / "recorder"
GLOO = DATA / "gloo"
SAYS = "rank 0 called broadcast #9 where ranks 1-2 called all_reduce #9"


def document(rank: int) -> dict[str, Any]:
    return pickle.loads((GLOO / f"rank_{rank}").read_bytes())


def test_a_gloo_dump_tells_what_is_done_by_what_is_retired() -> None:
    record = read_dump(GLOO / "rank_1").record
    assert record.state == (State.DONE,) * 9 + (State.SCHEDULED,)
    assert [group.name for group in record.groups] == ["0", "1"]
    assert record.stack_of(9)[-1].file == "/home/me/job/a.py"


def test_real_gloo_dumps_are_judged_in_any_order_and_where_torchs_own_tool_fails(tmp_path: Path) -> None:
    report = diagnose(gather([GLOO]))
    assert [(finding.code, finding.message, finding.ranks) for finding in report.findings] == [("DDP301", SAYS, (0,))]
    theirs = subprocess.run(
        [sys.executable, "-m", "torch.distributed.flight_recorder.fr_trace", GLOO],
        capture_output=True, text=True, timeout=PROGRAM_SECONDS, check=False,
    )  # fmt: skip
    assert theirs.returncode != 0
    assert "KeyError" in theirs.stderr


def test_json_of_the_worker_server_gives_the_same_calls() -> None:
    from_json, from_pickle = read_dump(DATA / "gloo_rank_0.json").record, read_dump(GLOO / "rank_0").record
    assert (from_json.calls, from_json.seq, from_json.state) == (from_pickle.calls, from_pickle.seq, from_pickle.state)
    assert from_json.frames == ()


def test_a_missing_rank_and_a_broken_file_leave_a_verdict_on_the_rest(tmp_path: Path) -> None:
    for rank in (0, 1, 2):
        (tmp_path / f"nccl_trace_rank_{rank}").write_bytes((GLOO / f"rank_{rank}").read_bytes())
    whole = (tmp_path / "nccl_trace_rank_2").read_bytes()
    (tmp_path / "nccl_trace_rank_2").write_bytes(whole[:500])
    report = diagnose(gather([tmp_path]))
    assert report.findings[0].code == "DDP301"
    assert any("nccl_trace_rank_2: it is cut off after 500 bytes" in note for note in report.notes)


def test_where_no_file_can_be_read_each_is_named(tmp_path: Path) -> None:
    (tmp_path / "rank_0").write_bytes(b"\x80\x02")
    (tmp_path / "rank_1").write_bytes(b"\x80\x02cos\nsystem\n(S'touch pwned'\ntR.")
    with pytest.raises(UndecidedError) as caught:
        gather([tmp_path])
    assert "rank_0: it is cut off after 2 bytes" in " ".join(caught.value.details)
    assert "rank_1: it asks for os.system, which no dump needs: it is refused" in " ".join(caught.value.details)


HOSTILE = {
    "runs code": b"\x80\x02cos\nsystem\n(S'echo'\ntR.",
    "makes an instance": b"\x80\x02(ios\nsystem\n.",
    "extension": b"\x80\x02\x82\x01.",
    "persistent": b"\x80\x02U\x01aQ.",
    "memo of 2 GiB": b"\x80\x02]r\xff\xff\xff\x7f.",
    "string of 8 EiB": b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7f.",
    "a million lists": b"[" * 1_000_000,
    "marks without end": b"\x80\x02" + b"(" * 1_000_000,
    "nothing": b"",
    "noise": bytes(range(256)) * 9,
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_files_are_refused_in_words(data: bytes) -> None:
    with pytest.raises(UndecidedError):
        decode(data)


def nested(depth: int) -> list[Any]:
    value: list[Any] = [1]
    for _ in range(depth):
        value = [value, value]
    return value


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"version": "9.1"}, "version '9.1'"),
        ({"entries": 7}, "not a list"),
        ({"entries": [{"state": "x"}]}, "damaged"),
        ({"entries": [{"profiling_name": 3}]}, "damaged"),
    ],
)
def test_damaged_documents_are_refused_in_words(tmp_path: Path, change: dict[str, Any], says: str) -> None:
    file = tmp_path / "rank_3"
    file.write_bytes(pickle.dumps({**document(0), **change}, 2))
    with pytest.raises(UndecidedError, match=says):
        read_dump(file)


def test_what_ranks_share_is_one_object_though_two_processes_read_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is the same for all ranks is looked at once; each analysis knows it by its identity."""
    monkeypatch.setattr(fr_dump_files, "WORTH_IT", 2)
    monkeypatch.setattr(fr_dump_files, "AT_ONCE", 1)
    monkeypatch.setattr(fr_dump_files.os, "sched_getaffinity", lambda _: {0, 1})
    files = [tmp_path / f"rank_{rank}" for rank in (0, 1)]
    for file in files:
        file.write_bytes((GLOO / "rank_1").read_bytes())
    one, other = (dump.record for dump in read_dumps(files) if isinstance(dump, Dump))
    assert one.calls is other.calls
    assert one.call is other.call
    assert one.state is other.state


def test_older_dumps_without_later_fields_are_read(tmp_path: Path) -> None:
    old = document(0)
    for entry in old["entries"]:
        entry["seq_id"] = entry.pop("collective_seq_id")
        for later in (
            "is_p2p",
            "timeout_ms",
            "input_dtypes",
            "output_dtypes",
            "p2p_seq_id",
            "thread_id",
            "thread_name",
        ):
            del entry[later]
    old["version"] = "2.0"
    (tmp_path / "rank_0").write_bytes(pickle.dumps(old, 2))
    record = read_dump(tmp_path / "rank_0").record
    assert isinstance(record, FlightRecord)
    assert record.seq == read_dump(GLOO / "rank_0").record.seq


def test_rings_that_wrapped_at_different_places_are_aligned() -> None:
    whole = [document(rank) for rank in range(3)]
    whole[1]["entries"] = whole[1]["entries"][4:]
    whole[2]["entries"] = whole[2]["entries"][1:]
    from ddpdoctor.evidence import Entry, PerRank

    entries = tuple(Entry(rank, "h", record_of(one)) for rank, one in enumerate(whole))
    (default, *_) = derive(PerRank(entries), None).groups
    (mismatch,) = default.mismatches.values()
    assert (mismatch.seq, {rank: made.op for rank, made in mismatch.issued.items()}) == (
        9, {0: "broadcast", 1: "all_reduce", 2: "all_reduce"},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "rank"),
    [("nccl_trace_rank_12", 12), ("rank3.json", 3), ("node7_rank_0.pkl", 0), ("comm_lib_trace_rank_1", 1), ("d_5", 5)],
)
def test_the_rank_is_in_the_name(name: str, rank: int) -> None:
    assert rank_of(Path("/x") / name) == rank


def test_a_name_without_a_rank_is_an_error() -> None:
    with pytest.raises(UndecidedError, match="contains no rank"):
        rank_of(Path("/dumps/dump.json"))


def test_json_may_not_be_a_dump() -> None:
    assert decode(json.dumps({"a": [1]}).encode()) == {"a": [1]}


@pytest.mark.parametrize(
    ("written", "ranks"),
    [
        ("[0, 1, 2]", (0, 1, 2)),
        ("'[0, 1]'", (0, 1)),
        ([1, 3], (1, 3)),
        ("send 0->1", None),
        ("[" * 300, None),
        ("", None),
    ],
)
def test_the_members_of_a_group_are_read_however_they_are_written(
    written: object, ranks: tuple[int, ...] | None
) -> None:
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": written}}
    record = record_of({**document(0), "pg_config": config})
    assert record.groups[0].ranks == ranks


def in_a_group(*sends: dict[str, Any], completed: int) -> dict[str, Any]:
    """A dump of active entries alone: sends in one group, of whose calls that of number `completed` ended last."""
    entries = [
        {"record_id": 2 * number, "pg_id": 1, "process_group": ("7", "pp"), "profiling_name": "nccl:send 0->1",
         "collective_seq_id": 0, "op_id": 2 * number, "is_p2p": True, "state": "scheduled", "retired": False,
         "time_created_ns": number, "time_discovered_completed_ns": None, "timeout_ms": 600_000,
         "input_sizes": [[8]], "input_dtypes": ["Float"], "output_sizes": [], "output_dtypes": [], **send}
        for number, send in enumerate(sends)
    ]  # fmt: skip
    last = entries[-1]["p2p_seq_id"]
    return {
        "version": "2.9",
        "pg_config": {"7": {"name": "7", "desc": "pp", "ranks": "[0, 1]"}},
        "pg_status": {"1": {"last_enqueued_collective": last, "last_completed_collective": completed}},
        "entries": entries,
    }


def test_a_send_that_only_the_table_of_groups_calls_through_is_a_batch_of_its_own() -> None:
    """Of active entries alone: what closed the batches is dropped, and the sends in them stay `scheduled`."""
    sends = [{"p2p_seq_id": number} for number in (1, 2, 3)]
    states = [record_of(in_a_group(*sends, completed=completed)).state for completed in (3, 2, -1)]
    assert states == [
        (State.DONE,) * 3,
        (State.DONE, State.DONE, State.SCHEDULED),
        (State.SCHEDULED,) * 3,
    ]


@pytest.mark.parametrize(("last", "state"), [(2, State.DONE), (3, State.SCHEDULED), (4, State.SCHEDULED)])
def test_sends_before_a_collective_that_is_through_are_through(last: int, state: State) -> None:
    """Of active entries alone: the table of groups counts a collective behind three sends, and there is no entry of it.

    One with a higher number may be another send.
    """
    dump = in_a_group(*({"p2p_seq_id": number} for number in (1, 2, 3)), completed=-1)
    dump["pg_status"]["1"]["last_enqueued_collective"] = last
    assert record_of(dump).state == (state,) * 3
    dump["entries"].append(
        {**dump["entries"][-1], "profiling_name": "nccl:all_reduce", "collective_seq_id": 2, "is_p2p": False}
    )
    assert {*record_of(dump).state} == {State.SCHEDULED}


@pytest.mark.parametrize("made", [0, 4, 5])
@pytest.mark.parametrize("state", [State.SCHEDULED, State.STARTED])
def test_a_send_is_open_though_a_collective_of_the_same_number_is_through(made: int, state: State) -> None:
    """Of a loop with one all_reduce and one send per turn, in either order: the table of groups has one number for both."""
    send = {"p2p_seq_id": 5, "collective_seq_id": made, "state": state.name.lower()}
    through = made == 0 and state is State.SCHEDULED  # no collective has this number
    assert record_of(in_a_group(send, completed=5)).state == (State.DONE if through else state,)


def test_a_batch_of_sends_is_one_where_entries_do_not_tell_what_is_point_to_point() -> None:
    """Of a group with batches of sends and, after them, a batch of collectives: both are closed by an entry of one name."""
    names = ("send 0->1", "recv 0<-1", "coalesced", "all_reduce", "all_reduce", "coalesced")
    entries = [
        {"record_id": number, "pg_id": 1, "process_group": ("7", "pp"), "profiling_name": f"nccl:{name}",
         "collective_seq_id": number // 3, "p2p_seq_id": 1, "op_id": number, "retired": False,
         "state": "completed" if name == "coalesced" else "scheduled",
         "time_created_ns": number, "time_discovered_completed_ns": None,
         "input_sizes": [], "input_dtypes": [], "output_sizes": [], "output_dtypes": []}
        for number, name in enumerate(names)
    ]  # fmt: skip
    record = record_of({"version": "2.1", "pg_config": {}, "entries": entries})
    assert [record.calls[call].point_to_point for call in record.call] == [True] * 3 + [False] * 3
    assert record.seq == (1,) * 6
    assert {*record.state} == {State.DONE}


def active_entries(*, completed: int) -> dict[str, Any]:
    """A dump of active entries alone: three batches of two collectives, without the closing entries of those that are through."""
    entry = {
        "pg_id": 0, "process_group": ("0", "default_pg"), "p2p_seq_id": 0, "is_p2p": False,
        "time_created_ns": 1, "state": "scheduled", "retired": False,
        "input_sizes": [[8]], "input_dtypes": ["Float"], "output_sizes": [[8]], "output_dtypes": ["Float"],
    }  # fmt: skip
    names = ("all_reduce", "all_reduce", "coalesced")
    entries = [
        {**entry, "record_id": 3 * batch + place, "collective_seq_id": batch + 1, "profiling_name": f"nccl:{name}"}
        for batch in range(3)
        for place, name in enumerate(names)
        if name != "coalesced" or batch >= completed
    ]
    status = {"last_enqueued_collective": 3, "last_completed_collective": completed}
    return {"version": "2.10", "pg_status": {"0": status}, "entries": entries}


def test_collectives_of_a_batch_that_is_through_are_done_by_the_table_of_groups() -> None:
    assert {*record_of(active_entries(completed=3)).state} == {State.DONE}
    assert [*record_of(active_entries(completed=2)).state] == [State.DONE] * 4 + [State.SCHEDULED] * 3


@pytest.mark.parametrize(
    ("calls", "noted"),
    [
        ([("completed", True, 5), ("completed", False, 9), ("scheduled", False, None)], 9e-9),
        ([("completed", True, 5), ("scheduled", False, None)], None),
        ([("completed", True, 5), ("completed", None, 9)], None),
    ],
    ids=["one that the dump saw end", "those that the watchdog saw end", "without the word of a watchdog"],
)
def test_a_dump_tells_when_it_was_made_by_what_it_saw_first(
    calls: list[tuple[str, bool | None, int | None]], noted: float | None
) -> None:
    entries = [
        {"record_id": number, "pg_id": 0, "process_group": ("0", "default_pg"), "profiling_name": "nccl:all_reduce",
         "collective_seq_id": number, "p2p_seq_id": 0, "op_id": number, "state": state, "time_created_ns": number,
         "time_discovered_completed_ns": ended, "input_sizes": [], "output_sizes": [],
         **({} if None in (calls[-1][1], retired) else {"retired": retired})}
        for number, (state, retired, ended) in enumerate(calls)
    ]  # fmt: skip
    assert record_of({"version": "2.1", "pg_config": {}, "entries": entries}).noted_at == noted
