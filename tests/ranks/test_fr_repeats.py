"""Entries that repeat earlier ones: cut out of the pickle, they give the record that the whole pickle gives."""

from __future__ import annotations

import pickle
import random
import struct
from pathlib import Path
from typing import Any

import pytest

from ddpdoctor.errors import UndecidedError
from ddpdoctor.ranks.fr_dump_files import decode, read_dump
from ddpdoctor.ranks.fr_parser import record_of
from ddpdoctor.ranks.fr_repeats import restored, shortened

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
        return b"X" + struct.pack("<I", len(value)) + value.encode()

    def _pairs(value: dict[str, Any]) -> bytes:
        return b"}(" + b"".join(written(key) + written(one) for key, one in value.items()) + b"u"

    return b"\x80\x02" + written(value) + b"."


@pytest.mark.parametrize("write", [as_torch_writes, lambda value: pickle.dumps(value, 2)], ids=["torch", "python"])
@pytest.mark.parametrize("seed", range(6))
def test_the_record_is_that_of_the_whole_pickle(seed: int, write: Any, tmp_path: Path) -> None:
    data = write(document(program(seed)))
    file = tmp_path / "nccl_trace_rank_0"
    file.write_bytes(data)
    record = read_dump(file).record
    assert record == record_of(decode(data), taken_at=record.taken_at)
    short = shortened(data)
    assert short is not None
    entries = restored(decode(short.data)["entries"], short)
    assert entries is not None
    assert len(entries.decoded) < len(entries.like) / 3


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


def test_bytes_that_look_like_entries_cost_little() -> None:
    """What is searched for the next entry is bounded: a file of half entries is left to the unpickler."""
    data = as_torch_writes(document([entry(number, number % 9, number // 3) for number in range(400)]))
    start = data.rindex(b"}(h")
    half = data[start : start + 40]
    short = shortened(data[:start] + half * 60_000)
    assert short is not None
    assert short.data.endswith(half * 59_000)
