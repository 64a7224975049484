"""Entries that repeat earlier ones: cut out of the pickle, they give the record that the whole pickle gives."""

from __future__ import annotations

import pickle
import random
import struct
from pathlib import Path
from typing import Any

import pytest

from ddpdoctor.errors import UndecidedError
from ddpdoctor.evidence.recorder import FlightRecord
from ddpdoctor.ranks import fr_repeats
from ddpdoctor.ranks.fr_dump_files import decode, read_dump
from ddpdoctor.ranks.fr_parser import record_of
from ddpdoctor.ranks.fr_repeats import restored, shortened
from ddpdoctor.ranks.pickle_walk import walked

START_NS = 1_795_233_867_118_125_849
TAKEN_AT = 5.0


def entry(
    number: int, kind: int, seq: int, *, ended: bool = True, sizes: list[list[int]] | None = None
) -> dict[str, Any]:
    """An entry as PyTorch writes it, of one of many kinds."""
    created = START_NS + number * 10**7
    shapes = [[100 + kind, 64]] if sizes is None else sizes
    return {
        "frames": FRAMES[kind % len(FRAMES)][:],
        "record_id": number,
        "pg_id": kind % 3,
        "process_group": (f"{kind % 3}", f"group {kind % 3}"),
        "collective_seq_id": seq,
        "p2p_seq_id": 0,
        "op_id": seq,
        "profiling_name": f"nccl:{('all_reduce', 'all_gather')[kind % 2]}",
        "time_created_ns": created,
        "input_sizes": [size[:] for size in shapes],
        "input_dtypes": ["Float"] * len(shapes),
        "output_sizes": [size[:] for size in shapes],
        "output_dtypes": ["Float"] * len(shapes),
        "state": "completed" if ended else "scheduled",
        "time_discovered_started_ns": None,
        "time_discovered_completed_ns": created + 10**6 if ended else None,
        "retired": ended,
        "timeout_ms": 600_000,
        "is_p2p": False,
    }


FRAMES = [
    [{"name": f"f{depth}", "filename": f"/job/m{depth}.py", "line": 10 + kind} for depth in range(1 + kind % 5)]
    for kind in range(7)
]


def document(entries: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "version": "2.10",
        "pg_config": {f"{n}": {"name": f"{n}", "desc": f"group {n}", "ranks": "[0, 1]"} for n in range(3)},
        "entries": entries,
        "pg_status": {"0": {"last_enqueued_collective": 9, "last_completed_collective": 8}},
    }


def program(seed: int) -> list[dict[str, Any]]:
    """The entries of a program with loops in loops, other passes between them, and calls at its end that have not ended."""
    chance = random.Random(seed)
    body = [chance.randrange(40) for _ in range(chance.choice((1, 3, 30, 90)))]
    kinds: list[int] = []
    while len(kinds) < 1_200:
        inner = chance.choices(body, k=chance.randrange(1, 6)) * chance.randrange(1, 9)
        kinds += body if chance.random() < 0.9 else [*body[: len(body) // 2], *inner]
    first = chance.choice((0, 200, 65_400))
    counts = [first] * 3
    entries = []
    for number, kind in enumerate(kinds, first):
        counts[kind % 3] += 1
        sizes = [[kind], [kind, 2]] if kind % 11 == 0 else [] if kind % 11 == 1 else [[]] if kind % 11 == 2 else None
        entries.append(entry(number, kind, counts[kind % 3], ended=number < first + len(kinds) - 20, sizes=sizes))
    return entries


def as_torch_writes(value: Any) -> bytes:
    """A pickle as PyTorch's own pickler writes it: strings and frames are kept under numbers, other containers are not."""
    known: dict[str | int, int] = {}

    def written(value: Any) -> bytes:
        if value is None or isinstance(value, bool):
            return {None: b"N", True: b"\x88", False: b"\x89"}[value]
        if isinstance(value, int):
            small = 0 <= value < 256
            short = b"K" + bytes([value]) if small else b"J" + struct.pack("<i", value) if abs(value) < 1 << 31 else b""
            return short or b"\x8a\x08" + struct.pack("<q", value)
        if isinstance(value, float):
            return b"G" + struct.pack(">d", value)
        if isinstance(value, str) or (isinstance(value, dict) and len(value) == len(FRAMES[0][0])):
            name = value if isinstance(value, str) else id(value)
            if name in known:
                return b"h" + bytes([known[name]]) if known[name] < 256 else b"j" + struct.pack("<I", known[name])
            content = _text(value) if isinstance(value, str) else _pairs(value)
            number = known.setdefault(name, len(known))
            return content + (b"q" + bytes([number]) if number < 256 else b"r" + struct.pack("<I", number))
        if isinstance(value, tuple):
            return b"".join(map(written, value)) + b"\x86"
        if isinstance(value, list):
            return b"](" + b"".join(map(written, value)) + b"e"
        return _pairs(value)

    def _text(value: str) -> bytes:
        written = value.encode()
        return b"X" + struct.pack("<I", len(written)) + written

    def _pairs(value: dict[str, Any]) -> bytes:
        return b"}(" + b"".join(written(key) + written(one) for key, one in value.items()) + b"u"

    return b"\x80\x02" + written(value) + b"."


WRITERS = pytest.mark.parametrize(
    "write", [as_torch_writes, lambda value: pickle.dumps(value, 2)], ids=["torch", "python"]
)


class Twice(dict[str, Any]):
    """Fields that are written with one of them twice: first with another value than the one that Python's dict keeps."""

    def items(self) -> Any:
        return [("collective_seq_id", 7), *super().items()]


class Counted(bytes):
    """A file that counts how often one of its bytes, or a slice, is read."""

    reads = 0

    def __getitem__(self, place: Any) -> Any:
        self.reads += 1
        return super().__getitem__(place)


def loop_of(kinds: int, *, entries: int = 400) -> list[dict[str, Any]]:
    return [entry(number, number % kinds, number // 3) for number in range(entries)]


def read_from(data: bytes, folder: Path) -> FlightRecord:
    file = folder / "nccl_trace_rank_0"
    file.write_bytes(data)
    return read_dump(file).record


def of_the_whole(data: bytes, record: FlightRecord) -> FlightRecord:
    return record_of(decode(data), taken_at=record.taken_at)


@WRITERS
@pytest.mark.parametrize("seed", range(6))
def test_the_record_is_that_of_the_whole_pickle(seed: int, write: Any, tmp_path: Path) -> None:
    data = write(document(program(seed)))
    record = read_from(data, tmp_path)
    assert record == of_the_whole(data, record)
    short = shortened(data)
    assert short is not None
    entries = restored(decode(short.data)["entries"], short)
    assert entries is not None
    assert len(entries.decoded) < len(entries.decoded_as) / 3


def test_what_an_entry_lacks_of_an_earlier_one_is_seen() -> None:
    """One entry in the middle of many equal ones has another dtype, stack, state or shape."""
    for change in (
        {"input_dtypes": ["Half"]},
        {"frames": []},
        {"state": "started"},
        {"input_sizes": [[5, 64]]},
        {"is_p2p": True},
    ):
        entries = [entry(number, number % 9, number // 3) for number in range(400)]
        entries[250] |= change
        for data in (as_torch_writes(document(entries)), pickle.dumps(document(entries), 2)):
            short = shortened(data)
            assert short is not None
            whole = restored(decode(short.data)["entries"], short)
            assert whole is not None
            assert record_of(document(whole.decoded), entries=whole) == record_of(decode(data))


def test_lists_that_entries_share_are_read_as_before(tmp_path: Path) -> None:
    """A list of an entry that is cut out, and that a later one refers to, has the whole pickle decoded."""
    entries = [entry(number, number % 4, number // 3) for number in range(300)]
    entries[280]["output_sizes"] = entries[200]["input_sizes"]
    data = pickle.dumps(document(entries), 2)
    short = shortened(data)
    assert short is not None
    with pytest.raises(UndecidedError):
        decode(short.data)
    file = tmp_path / "nccl_trace_rank_0"
    file.write_bytes(data)
    assert read_dump(file).record.seq == tuple(number // 3 for number in range(300))


@pytest.mark.parametrize("extra", [0, 7, (entry(0, 0, 0),), "text", [1]])
def test_entries_that_are_no_records_are_refused_as_before(extra: object, tmp_path: Path) -> None:
    """Numbers and tuples stand for entries that were cut out; those of the file itself are not taken for them."""
    entries: list[Any] = [entry(number, number % 4, number // 3) for number in range(300)]
    entries[100:100] = [extra]
    file = tmp_path / "nccl_trace_rank_0"
    file.write_bytes(pickle.dumps(document(entries), 2))
    with pytest.raises(UndecidedError, match="its entries are not a list of records"):
        read_dump(file)


def test_a_cut_off_file_is_refused_as_before(tmp_path: Path) -> None:
    data = pickle.dumps(document(program(1)), 2)
    file = tmp_path / "nccl_trace_rank_0"
    for length in range(20_000, len(data), 17_001):
        file.write_bytes(data[:length])
        with pytest.raises(UndecidedError, match=f"cut off after {length} bytes"):
            read_dump(file)


def test_other_pickles_and_small_ones_are_left_whole() -> None:
    entries = [entry(number, number % 9, number // 3) for number in range(400)]
    assert shortened(pickle.dumps(document(entries[:5]), 2)) is None
    assert shortened(pickle.dumps(document([dict(reversed(one.items())) for one in entries]), 2)) is None
    assert shortened(b"\x80\x02" + b"X\x07\x00\x00\x00entries" * 4_000) is None


@WRITERS
@pytest.mark.parametrize(
    "pair",
    [
        ("collective_seq_id", "p2p_seq_id"),
        ("time_created_ns", "time_discovered_completed_ns"),
        ("record_id", "op_id"),
        ("profiling_name", "state"),
    ],
)
def test_fields_that_change_their_order_keep_their_values(pair: tuple[str, str], write: Any, tmp_path: Path) -> None:
    """Entries from the hundredth on have two fields in the other order than the first entry."""
    other = dict(zip(pair, reversed(pair), strict=True))
    entries = loop_of(9)
    entries[100:] = [{other.get(name, name): one[other.get(name, name)] for name in one} for one in entries[100:]]
    data = write(document(entries))
    assert shortened(data) is not None
    record = read_from(data, tmp_path)
    assert record == of_the_whole(data, record)
    assert record.seq == tuple(number // 3 for number in range(400))


@pytest.mark.parametrize("first", [0, 100])
def test_of_a_field_that_is_written_twice_the_last_value_counts(first: int, tmp_path: Path) -> None:
    entries = loop_of(9)
    entries[first:] = [Twice(one) for one in entries[first:]]
    record = read_from(as_torch_writes(document(entries)), tmp_path)
    assert record.seq == tuple(number // 3 for number in range(400))


@WRITERS
@pytest.mark.parametrize("gain", [True, False], ids=["in-the-first", "not-in-the-first"])
def test_a_duration_that_some_entries_have_is_no_fault(gain: bool, write: Any, tmp_path: Path) -> None:
    """Entries that lack a field of the first one, or have one more, are decoded; the others are compared."""
    entries = loop_of(9)
    for one in entries[:300] if gain else entries[1:]:
        one["duration_ms"] = one["record_id"] / 7
    data = write(document(entries))
    assert (shortened(data) is not None) is gain
    record = read_from(data, tmp_path)
    assert record == of_the_whole(data, record)


@WRITERS
@pytest.mark.parametrize("name", ["größe", "日本語" * 20, "\x00h\x01q\x02u", "é" * 127, "x" * 700])
def test_texts_of_any_length_and_script_are_read_as_before(name: str, write: Any, tmp_path: Path) -> None:
    """The length of a text is given in bytes, and any byte may stand in it."""
    entries = loop_of(9)
    for one in entries:
        one["profiling_name"] = f"nccl:{name}{one['record_id'] % 2}"
    data = write(document(entries))
    assert shortened(data) is not None
    record = read_from(data, tmp_path)
    assert record == of_the_whole(data, record)


def ambiguous(unknown: int) -> Counted:
    """A dump whose entries have this many unknown numbers; one has texts that look like two fields, and no end."""
    values = {f"unknown {number}": 5 for number in range(unknown)}
    data = as_torch_writes(document([{**one, **values} for one in loop_of(2, entries=100)]))
    end = data.index(b"ue" + as_torch_writes("pg_status")[2:-3])
    start = data.rindex(b"}(h", 0, end)
    known = data[start : end - unknown * len(b"hAK\x05")]
    text = b"hAX\x05\0\0\0qAhBMqC"
    return Counted(data[:start] + known + text * (unknown * 2 // 3) + data[start:])


def test_texts_that_look_like_fields_take_linear_time() -> None:
    """Such an entry once took twice the time for every other field."""
    small, large = ambiguous(60), ambiguous(120)
    for file in (small, large):
        shortened(file)
    assert large.reads < 2.5 * small.reads


def test_bytes_that_look_like_entries_cost_little() -> None:
    """What is searched for the next entry is bounded: a file of half entries is left to the unpickler."""
    data = as_torch_writes(document([entry(number, number % 9, number // 3) for number in range(400)]))
    start = data.rindex(b"}(h", 0, data.index(b"pg_status"))
    half = data[start : start + 40]
    short = shortened(data[:start] + half * 60_000)
    assert short is not None
    assert short.data.endswith(half * 59_000)


def test_dictionaries_within_others_are_not_searched_for_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames of the first entry, and the rows of the tables of groups, are no entries: each table is followed once."""
    rows = {f"{number}": {"last_enqueued_collective": 9, "last_completed_collective": 8} for number in range(50)}
    data = as_torch_writes({**document(loop_of(2)), "pg_status": rows})
    begun: list[int] = []
    monkeypatch.setattr(fr_repeats, "walked", lambda data, begin: begun.append(begin) or walked(data, begin))
    assert shortened(data) is not None
    assert len(begun) < 15
