"""Every kind of record and text comes back as it was written; what is torn, foreign or of another version does not."""

from __future__ import annotations

import inspect
import json
import tempfile
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddpdoctor.agent.inside.calls.call_ring import CallRing
from ddpdoctor.agent.inside.schema import call_ring as layout
from ddpdoctor.agent.inside.schema import call_texts
from ddpdoctor.agent.inside.schema.call_ring import (
    Batch,
    Collective,
    Forward,
    Header,
    NewGroup,
    PointToPoint,
    Record,
)
from ddpdoctor.agent.inside.schema.call_texts import (
    EnvWrite,
    Group,
    HandledError,
    Joining,
    Members,
    Op,
    Place,
    ReduceOp,
    TensorSpec,
    Text,
    Wrapped,
)
from ddpdoctor.agent.inside.schema.error import Error
from ddpdoctor.agent.inside.schema.source_line import SourceLine
from ddpdoctor.ranks import call_ring_reader
from ddpdoctor.ranks.agent_files import find_ranks
from ddpdoctor.ranks.call_ring_reader import OtherVersionError, read_header, read_records
from ddpdoctor.ranks.call_texts_reader import read_texts

TEXT_NUMBER = st.integers(0, (1 << 32) - 1)
PLACE_IN_PASS = st.none() | st.integers(0, 1 << 30)
COUNT = st.integers(0, 1 << 62)
RANK = st.integers(-1, (1 << 31) - 1)
WRITES = st.one_of(
    st.tuples(
        st.just("collective"),
        TEXT_NUMBER,
        TEXT_NUMBER,
        TEXT_NUMBER,
        COUNT,
        RANK,
        TEXT_NUMBER,
        TEXT_NUMBER,
        st.booleans(),
    ),
    st.tuples(st.just("point to point"), TEXT_NUMBER, TEXT_NUMBER, TEXT_NUMBER, RANK, COUNT, COUNT, st.booleans()),
    st.tuples(st.just("new group"), TEXT_NUMBER, TEXT_NUMBER, st.booleans()),
    st.tuples(st.just("batch"), RANK, COUNT, COUNT, COUNT, PLACE_IN_PASS, PLACE_IN_PASS),
    st.tuples(st.just("forward"), TEXT_NUMBER, COUNT, COUNT, st.none() | COUNT, st.none() | st.booleans()),
)


def written(path: Path, writes: list[Any]) -> list[tuple[type[Record], tuple[int | bool, ...]]]:
    """Make a ring with these records; returns their kinds, and their fields without times (but whether they returned)."""
    ring = CallRing(str(path), rank=1, world_size=2, restart=0)
    expected: list[tuple[type[Record], tuple[int | bool, ...]]] = []
    for kind, *fields in writes:
        match kind:
            case "collective":
                op, group, place, seq, root, reduce_op, tensor, returns = fields
                index = ring.begin_collective(op, group, place, seq=seq, root=root, reduce_op=reduce_op, tensor=tensor)
                expected.append((Collective, (returns, seq, root, op, group, place, reduce_op, tensor)))
            case "point to point":
                op, group, place, peer, tag, number, returns = fields
                index = ring.begin_point_to_point(op, group, place, peer=peer, tag=tag, number=number)
                expected.append((PointToPoint, (returns, tag, number, peer, op, group, place)))
            case "new group":
                members, place, returns = fields
                index = ring.begin_new_group(members, place)
                expected.append((NewGroup, (returns, members, place)))
            case "batch":
                data_set, asked, seq, iteration, in_pass, of = fields
                ring.batch(
                    data_set, asked_ns=asked, drawn_ns=asked + 1, seq=seq, iteration=iteration, in_pass=in_pass, of=of
                )
                counted = tuple(layout.NO_COUNT if count is None else count for count in (in_pass, of))
                expected.append((Batch, (asked, seq, iteration, data_set, *counted)))
                continue
            case _:
                place, seq, number, turn, reduces = fields
                ring.count_step()
                ring.forward(place, seq=seq, number=number, turn=turn, reduces=reduces)
                counted, reduced = (layout.NO_COUNT if one is None else int(one) for one in (turn, reduces))
                expected.append((Forward, (seq, number, counted, place, ring.steps, reduced)))
                continue
        if returns:
            ring.end(index)
    return expected


def without_times(record: Record) -> tuple[type[Record], tuple[int | bool, ...]]:
    match record:
        case Collective() | PointToPoint() | NewGroup():
            return type(record), (record.returned_ns >= record.began_ns > 0, *record[2:])
        case Batch():
            return Batch, (record.asked_ns, *record[2:])
        case _:
            return Forward, record[1:]


@given(writes=st.lists(WRITES, max_size=20))
def test_records_of_every_kind_come_back_as_they_were_written(writes: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "7.ring")
        expected = written(path, writes)
        data = path.read_bytes()
    header = read_header(data)
    assert header is not None
    assert (header.rank, header.world_size, header.written) == (1, 2, len(writes))
    assert [without_times(record) for record in read_records(data)] == expected


@given(data=st.data(), writes=st.lists(WRITES, min_size=1, max_size=5))
def test_garbled_bytes_never_stop_the_reader(data: Any, writes: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "7.ring")
        written(path, writes)
        ring = bytearray(path.read_bytes())
    end = layout.HEADER_BYTES + layout.RECORD_BYTES * len(writes)
    start = data.draw(st.integers(layout.IDENTITY_OFFSET, end - 1))
    noise = data.draw(st.binary(min_size=1, max_size=100))
    ring[start : start + len(noise)] = noise
    assert isinstance(read_header(bytes(ring)), Header)
    assert len(read_records(bytes(ring))) <= layout.RING
    assert len(read_records(bytes(ring[: data.draw(st.integers(0, len(ring)))]))) <= layout.RING


def test_a_record_in_which_its_writer_died_is_left_out(tmp_path: Path) -> None:
    ring = CallRing(str(tmp_path / "7.ring"), rank=0, world_size=2, restart=0)
    for seq in range(3):
        ring.begin_collective(1, 1, 1, seq=seq)
    torn = bytearray((tmp_path / "7.ring").read_bytes())
    second = layout.HEADER_BYTES + layout.RECORD_BYTES
    torn[second : second + 8] = bytes(8)
    assert [record.seq for record in read_records(bytes(torn)) if isinstance(record, Collective)] == [0, 2]


@pytest.mark.parametrize(
    "data", [b"", b"ddpdring", b"x" * 4096, bytes(4096)], ids=["empty", "short", "foreign", "zeros"]
)
def test_what_is_no_ring_holds_nothing(data: bytes) -> None:
    assert read_header(data) is None
    assert read_records(data) == ()


def test_a_ring_of_another_version_is_refused_with_both_versions(tmp_path: Path) -> None:
    CallRing(str(tmp_path / "77.ring"), rank=0, world_size=2, restart=0)
    assert len(find_ranks(tmp_path)) == 1
    newer = bytearray((tmp_path / "77.ring").read_bytes())
    layout.PREAMBLE.pack_into(newer, 0, layout.MAGIC, layout.VERSION + 1)
    (tmp_path / "77.ring").write_bytes(bytes(newer))
    with pytest.raises(OtherVersionError) as refused:
        find_ranks(tmp_path)
    assert refused.value.message == "the call ring of process 77 has format 8, and this ddpdoctor reads format 7"
    assert refused.value.hint == "use the ddpdoctor that the job was started with"


def test_each_kind_of_record_has_a_layout_of_its_size_and_fields() -> None:
    kinds = {kind: struct for struct, kind in call_ring_reader._KINDS.values()}
    assert set(kinds) == set(get_args(Record))
    for kind, struct in kinds.items():
        assert struct.size <= layout.RECORD_BYTES
        fields = inspect.get_annotations(kind)
        assert len(struct.unpack(bytes(struct.size))) == len(fields) + 2, "its number and kind come first"
        if "returned_ns" in fields:
            assert [*fields].index("returned_ns") * 8 + layout.PREFIX.size == layout.RETURNED_OFFSET


NAME = st.text(max_size=20)
LINES = st.lists(st.builds(SourceLine, NAME, st.integers(0, 1 << 20), NAME), max_size=3).map(tuple)
ERROR = st.builds(Error, NAME, NAME, LINES, st.none())
TEXTS = st.one_of(
    st.builds(Op, NAME),
    st.builds(Group, NAME, NAME, NAME),
    st.builds(ReduceOp, NAME),
    st.builds(TensorSpec, st.lists(st.integers(0, 1 << 40), max_size=4).map(tuple), NAME),
    st.builds(Members, st.lists(st.integers(0, 1 << 20), max_size=4).map(tuple)),
    st.builds(Place, LINES),
    st.builds(HandledError, NAME, st.integers(0, 1 << 40), st.builds(Error, NAME, NAME, LINES, ERROR)),
    st.builds(
        Joining,
        NAME,
        NAME,
        st.lists(
            st.builds(EnvWrite, NAME, NAME, st.builds(SourceLine, NAME, st.integers(0, 1 << 20), NAME)), max_size=2
        ).map(tuple),
    ),
    st.builds(
        Wrapped, st.lists(st.tuples(NAME, st.integers(0, 1 << 20)), max_size=3).map(tuple), st.integers(0, 1 << 20)
    ),
)


@given(text=TEXTS, torn=st.integers(1, 200))
def test_texts_of_every_kind_come_back_and_a_torn_line_is_left_out(text: Text, torn: int) -> None:
    last = json.dumps(["HandledError", 0, HandledError("0", 5, Error("ValueError", "x" * 300))])
    read = read_texts(f"{json.dumps([type(text).__name__, 7, text])}\n{last[:torn]}".encode())
    match text:
        case HandledError():
            assert read.handled == (text,)
        case Joining():
            assert read.joining == text
        case _:
            assert read.get(type(text), 7) == text
            assert read.get(type(text), 8) is None


def test_each_kind_of_text_is_known_to_the_reader() -> None:
    from ddpdoctor.ranks import call_texts_reader

    assert set(call_texts_reader._KINDS.values()) == set(get_args(call_texts.Text))


@pytest.mark.parametrize(
    "line", [b"{}", b"7", b'["Op", 1]', b'["Op", 1, [7]]', b'["Nobody", 1, ["x"]]', b'[[], 1, ["x"]]']
)
def test_a_line_that_is_no_text_is_left_out(line: bytes) -> None:
    assert read_texts(line + b'\n["Op", 1, ["send"]]').op(1) == "send"
