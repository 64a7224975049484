"""Entries of a pickled dump that repeat an earlier one but for its numbers, cut out of the pickle before it is decoded.

A training loop makes the same calls again and again: of 2,000 entries some hundred differ in more than their numbers. To
compare the bytes of an entry with those of an earlier one costs a fifth of what its objects cost. What repeats nothing is
left to the unpickler, and so is the whole pickle where it is written in another way than PyTorch's or Python's pickler writes
it. Nothing is decoded here but numbers of a fixed width.

An entry that is cut out defines no string that a later one needs: a pickle in which it does has no such string for the
unpickler, which says so, and is then decoded whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from struct import Struct
from typing import Any

FEWEST_BYTES = 1 << 14  # of a dump: below, comparing costs more than it saves
FURTHEST = 1 << 16  # bytes to the next entry that repeats; the first entries of a kind hold the strings
MOST_SEARCHED = 1 << 20  # bytes in all
MOST_OPERATIONS = 2_000  # of a first entry
MOST_OF_LAYOUTS = 1 << 20  # bytes of entries whose layouts are kept; they take eight times as much
MOST_OF_A_BLOCK = 64  # entries that are compared at once
MOST_BYTES_OF_A_BLOCK = 1 << 16
MOST_BLOCKS = 64  # that are kept
SAME_BEFORE = 8  # entries after which a program is taken to be in the same loop again
FOLLOWERS = 4  # layouts that are tried: what came next when the program was here before

NUMBERS = ("collective_seq_id", "p2p_seq_id", "time_created_ns", "time_discovered_completed_ns")
"""The numbers of an entry that a record keeps, in the order in which PyTorch writes them."""
_UNUSED = frozenset({"record_id", "op_id", "seq_id", "duration_ms", "time_discovered_started_ns"})

_PUT = rb"(q.|r....|)"
_GET = rb"(?:h.|j....)"
_TEXT = rb"(?:h.|j....|X.\x00\x00\x00[^\x00-\x1f]{0,255}?(q.|r....))"  # a longer one is left to the unpickler
_INT = rb"(?:K.|M..|J....)"
_LONG = rb"\x8a\x08.{8}"
_SCALAR = rb"(?:K.|M..|J....|[N\x88\x89]|" + _LONG + rb"|G.{8}|" + _TEXT + rb")"
_SIZE = rb"(?:K.|M..|J....){0,8}"
_SIZES = (
    rb"(?:\]" + _PUT + rb"(?:\]" + _PUT + rb"(?:" + _INT + rb"a|\(" + _SIZE + rb"e)?a"
    rb"|\((?:\](?:\(" + _SIZE + rb"e)?){0,64}e)?|" + _GET + rb")"
)
_GETS = rb"\((?:j.{4}j.{4}j.{4}j.{4}){0,64}(?:h.h.h.h.){0,64}(?:h.|j.{4}){0,16}e"
_LIST = rb"(?:\]" + _PUT + rb"(?:" + _GETS + rb"|" + _TEXT + rb"a)?|" + _GET + rb")"
_VALUES = {
    "frames": _LIST,
    "process_group": rb"(?:" + _TEXT + _TEXT + rb"\x86" + _PUT + rb"|" + _GET + rb")",
    "collective_seq_id": rb"(?P<collective_seq_id>" + _INT + rb")",
    "p2p_seq_id": rb"(?P<p2p_seq_id>" + _INT + rb")",
    "time_created_ns": rb"(?P<time_created_ns>" + _LONG + rb")",
    "time_discovered_completed_ns": rb"(?P<time_discovered_completed_ns>N|" + _LONG + rb")",
    "input_sizes": _SIZES,
    "output_sizes": _SIZES,
    "input_dtypes": _LIST,
    "output_dtypes": _LIST,
    **dict.fromkeys(_UNUSED, rb"(N|K.|M..|J....|" + _LONG + rb"|G.{8})"),
}
_LONG_CODE = 0x8A
_NO_NUMBER = "0s"  # reads no byte and gives b""
_FORMS = {ord("K"): "B", ord("M"): "H", ord("J"): "i", _LONG_CODE: "q"}

_OPERANDS = {**dict.fromkeys(b"qhK\x8a", 1), **dict.fromkeys(b"rjJX", 4), ord("M"): 2, ord("G"): 8}
_TUPLES = {0x85: 1, 0x86: 2, 0x87: 3}
_TUPLE_OF_ONE = b"\x85"
_FIRST = re.compile(rb"X\x07\x00\x00\x00entries(?:q.|r.{4})\](?:q.|r.{4})?\(\}(?:q.|r.{4})?\(", re.DOTALL)


@dataclass(slots=True)
class Shortened:
    """A pickle without the entries that repeat earlier ones.

    In its list of entries stands in place of each run of such entries the number of the run, and the first entry of each kind
    is wrapped in a tuple.
    """

    data: bytes = b""
    """The shorter pickle."""
    runs: list[tuple[list[int], list[Any]]] = field(default_factory=list)
    """For each run the kinds of its entries, and the `NUMBERS` of one after the other."""
    kinds: int = 0
    """How many kinds there are."""


@dataclass(frozen=True, slots=True)
class Entries:
    """The entries of a dump, of which some are known by an earlier one and by their own numbers."""

    decoded: list[dict[str, Any]]
    """Those that were decoded."""
    like: Sequence[int]
    """For each entry the position in `decoded` of the one that it is, or that it repeats."""
    numbers: Mapping[str, Sequence[Any]]
    """For each of `NUMBERS` those of all entries; None or b"" where an entry has none."""


class _Layout:
    """How the bytes of an entry are laid out, and what they are where they repeat."""

    __slots__ = ("fixed", "followers", "form", "length", "mask", "numbers", "value")

    def __init__(self, entry: bytes, fixed: tuple[bytes, ...], holes: Iterable[tuple[int, int]], form: str) -> None:
        mask = bytearray(b"\xff" * len(entry))
        for begin, end in holes:
            mask[begin:end] = bytes(end - begin)
        self.length = len(entry)
        self.mask = int.from_bytes(mask, "little")
        self.value = int.from_bytes(entry, "little") & self.mask
        self.form = form
        self.numbers = Struct(f"<{form}").unpack
        self.fixed = fixed
        self.followers: list[_Layout] = []


class _Block:
    """The layouts of entries that follow each other, compared at once."""

    __slots__ = ("length", "mask", "members", "numbers", "value")

    def __init__(self, members: tuple[_Layout, ...]) -> None:
        self.members = members
        self.length = sum(member.length for member in members)
        self.mask = int.from_bytes(b"".join(one.mask.to_bytes(one.length, "little") for one in members), "little")
        self.value = int.from_bytes(b"".join(one.value.to_bytes(one.length, "little") for one in members), "little")
        self.numbers = Struct("<" + "".join(member.form for member in members)).unpack


_block = lru_cache(maxsize=MOST_BLOCKS)(_Block)


class _Known:
    """What is known of entries with the same fields: how to find one, and the layouts that were met, in all files."""

    def __init__(self, fields: tuple[str, ...]) -> None:
        values = (_GET + _VALUES.get(name, _SCALAR) for name in fields)
        self.entry = re.compile(rb"\}" + _PUT + rb"\(" + b"".join(values) + rb"u", re.DOTALL)
        numbers = {number: name for name, number in self.entry.groupindex.items()}
        self._names = [numbers.get(number) for number in range(1, self.entry.groups + 1)]
        self._layouts: dict[tuple[tuple[bytes, ...], str, tuple[tuple[int, int], ...]], _Layout] = {}
        self._size = 0
        self.first: list[_Layout] = []

    def layout(self, found: re.Match[bytes]) -> _Layout:
        """The layout of this entry, one object for all that are laid out and filled alike."""
        entry, begin = found[0], found.start()
        fixed: list[bytes] = []
        holes: list[tuple[int, int]] = []
        form, read, done = "", 0, 0
        for name, (first, end) in zip(self._names, found.regs[1:], strict=True):
            if first < 0:
                continue
            fixed.append(entry[done : first - begin])
            done = end - begin
            if end - first > 1:
                code, argument = entry[first - begin], first - begin + 1 + (entry[first - begin] == _LONG_CODE)
                holes.append((argument, done))
                if name:
                    form += f"{argument - read}x{_FORMS[code]}"
                    read = done
            elif name:
                form += _NO_NUMBER
        fixed.append(entry[done:])
        form += f"{len(entry) - read}x"
        key = (tuple(fixed), form, tuple(holes))
        if key not in self._layouts:
            self._size += len(entry)
            if self._size > MOST_OF_LAYOUTS:
                self._layouts.clear()
                self.first.clear()
                self._size = len(entry)
            self._layouts[key] = _Layout(entry, key[0], holes, form)
        return self._layouts[key]


_known = lru_cache(maxsize=8)(_Known)


def shortened(data: bytes) -> Shortened | None:
    """The pickle without the entries that repeat earlier ones; None where none do, or where it is not as PyTorch writes it."""
    begin = data.find(b"X\x07\x00\x00\x00entries") if len(data) >= FEWEST_BYTES else -1
    fields = _field_names(data, begin) if begin >= 0 else ()
    if tuple(name for name in fields if name in NUMBERS) != NUMBERS:
        return None
    known = _known(fields)
    short = Shortened()
    pieces: list[bytes] = []
    kinds: dict[tuple[bytes, ...], int] = {}
    kind_of: dict[_Layout, int] = {}
    loop = _Loop()
    followers = known.first
    place, copied, end_of_run, searched = begin, 0, -1, 0
    of_kinds: list[int] = []
    numbers: list[Any] = []
    while True:
        for layout in followers:
            chunk = data[place : place + layout.length]
            if int.from_bytes(chunk, "little") & layout.mask == layout.value:
                break
        else:
            found = known.entry.match(data, place)
            if found is None:
                found = known.entry.search(data, place, min(place + FURTHEST, len(data)))
                searched += (found.start() if found else len(data)) - place
                if found is None or searched > MOST_SEARCHED:
                    break
                place = found.start()
            chunk, layout = found[0], known.layout(found)
            if layout not in followers:
                followers.insert(0, layout)
                del followers[FOLLOWERS:]
        followers = layout.followers
        if layout not in kind_of:
            new = len(kinds)
            kind_of[layout] = kinds.setdefault(layout.fixed, new)
            if kind_of[layout] == new:
                end = place + layout.length
                pieces += (data[copied:end], _TUPLE_OF_ONE)
                place = copied = end
                continue
        if place != end_of_run:
            pieces += (data[copied:place], b"J" + len(short.runs).to_bytes(4, "little"))
            of_kinds, numbers = [], []
            short.runs.append((of_kinds, numbers))
        of_kinds.append(kind_of[layout])
        numbers += layout.numbers(chunk)
        place += layout.length
        block = loop.next_block(layout)
        while block:
            chunk = data[place : place + block.length]
            if int.from_bytes(chunk, "little") & block.mask != block.value:
                loop.left()
                break
            of_kinds += [kind_of[member] for member in block.members]
            numbers += block.numbers(chunk)
            place += block.length
            followers = block.members[-1].followers
            block = loop.after(block)
        copied = end_of_run = place
    if not short.runs:
        return None
    short.data = b"".join((*pieces, data[copied:]))
    short.kinds = len(kinds)
    return short


class _Loop:
    """The layouts of a file's entries in order, and what came next when the program was at the same place before."""

    def __init__(self) -> None:
        self._trail: list[_Layout] = []
        self._latest: dict[_Layout, int] = {}
        self._blocks: dict[_Layout, _Block] = {}
        self._before = -1
        self._rest = 0

    def next_block(self, layout: _Layout) -> _Block | None:
        """What should follow this entry, where the last entries were those of an earlier pass of the loop."""
        here, trail = len(self._trail), self._trail
        trail.append(layout)
        self._before, self._latest[layout] = self._latest.get(layout, -1), here
        if here < self._rest or self._before < SAME_BEFORE:
            return None
        if trail[self._before - SAME_BEFORE : self._before] != trail[here - SAME_BEFORE : here]:
            return None
        return self._predicted()

    def _predicted(self) -> _Block | None:
        begin = self._before + 1
        upcoming = self._trail[begin : begin + MOST_OF_A_BLOCK]
        upcoming *= MOST_OF_A_BLOCK // len(upcoming)
        first = upcoming[0]
        if first not in self._blocks:
            cut = next((n for n, one in enumerate(upcoming) if n >= SAME_BEFORE and one in self._blocks), len(upcoming))
            members = tuple(upcoming[:cut])
            if cut < SAME_BEFORE or sum(member.length for member in members) > MOST_BYTES_OF_A_BLOCK:
                return None
            self._blocks[first] = _block(members)
        return self._blocks[first]

    def after(self, block: _Block) -> _Block | None:
        """What should follow this block, which was met."""
        here = len(self._trail)
        self._trail += block.members
        self._latest.update(zip(block.members, range(here, len(self._trail)), strict=True))
        self._before += len(block.members)
        return self._predicted()

    def left(self) -> None:
        """The program did not do what it did before: entries are compared one by one for a while."""
        self._rest = len(self._trail) + SAME_BEFORE


def restored(items: object, short: Shortened) -> Entries | None:
    """The entries, given what the shorter pickle holds in their place; None where that is not what was written into it."""
    if not isinstance(items, list):
        return None
    decoded: list[dict[str, Any]] = []
    like: list[int] = []
    first_of_kind: list[int] = []
    columns: dict[str, list[Any]] = {name: [] for name in NUMBERS}
    run = 0
    for item in items:
        if type(item) is int:
            if item != run or run == len(short.runs):
                return None
            kinds, numbers = short.runs[run]
            run += 1
            if max(kinds) >= len(first_of_kind):
                return None
            like += [first_of_kind[kind] for kind in kinds]
            for place, column in enumerate(columns.values()):
                column += numbers[place :: len(columns)]
            continue
        if type(item) is tuple and len(item) == 1:
            first_of_kind.append(len(decoded))
            item = item[0]
        if type(item) is not dict or not item.keys() >= columns.keys():
            return None
        like.append(len(decoded))
        decoded.append(item)
        for name, column in columns.items():
            column.append(item[name])
    if run != len(short.runs) or len(first_of_kind) != short.kinds:
        return None
    return Entries(decoded=decoded, like=like, numbers=columns)


def _field_names(data: bytes, begin: int) -> tuple[str, ...]:
    """The names of the fields of the first entry behind the key at `begin`, in order; none where it is written in another way.

    Only what each operation leaves on the unpickler's stack is followed.
    """
    head = _FIRST.match(data, begin)
    place = head.end() if head else len(data)
    marks: list[int] = []
    stack: list[str | None] = []
    for _ in range(MOST_OPERATIONS):
        if place >= len(data):
            break
        code, operand = data[place], place + 1
        place = operand + _OPERANDS.get(code, 0)
        if code in b"X\x8a":
            place += int.from_bytes(data[operand:place], "little")
        if code == ord("("):
            marks.append(len(stack))
        elif code == ord("u") and not marks:
            return tuple(map(str, stack[::2]))
        elif code in b"eut":
            del stack[marks.pop() if marks else 0 :]
            stack += [None] * (code == ord("t"))
        elif code == ord("a"):
            del stack[-1:]
        elif code in _TUPLES:
            stack[-_TUPLES[code] :] = [None]
        elif code not in b"qr":
            stack.append(data[operand + 4 : place].decode(errors="replace") if code == ord("X") else None)
    return ()
