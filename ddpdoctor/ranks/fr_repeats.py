"""Entries of a pickled dump that repeat an earlier one but for its numbers, cut out of the pickle before it is decoded.

A training loop makes the same calls again and again: of 2,000 entries some hundred differ in more than their numbers. To
compare the bytes of an entry with those of an earlier one costs a fifth of what its objects cost. Entries that repeat no
earlier one are left to the unpickler. A pickle is decoded whole if it is written in another way than PyTorch's or Python's
pickler writes it. Nothing is decoded here but numbers of a fixed width.

An entry is compared only if it has the fields of the first entry of the dump, in the same order. There is no gain where the
first entry lacks an optional field that the others have, such as `duration_ms`, or has one that they lack.

If a later entry refers to a string of an entry that was cut out, unpickling fails, and the whole pickle is decoded instead.
The PUT operations of entries that are cut out are not executed: if damage gave one of them the number of another object, an
entry that refers to this number keeps that other object.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ddpdoctor.ranks.fr_entry_layouts import NUMBERS, Layout, LayoutBlock, Layouts, block_of, layouts_of
from ddpdoctor.ranks.pickle_walk import TEXT, walked

FEWEST_BYTES = 1 << 14  # of a dump: below, comparing costs more than it saves
MOST_BYTES_BETWEEN = 1 << 16  # from an entry that repeats to the next; the first entries of a kind hold the strings
MOST_SEARCHED = 1 << 18  # bytes in all, those of entries that were read in vain included
MOST_BYTES = 1 << 16  # of the entries that are compared at once
MOST_OF_A_BLOCK = 64  # entries that are compared at once
SAME_BEFORE = 8  # entries after which a program is taken to be in the same loop again
FOLLOWERS = 4  # layouts that are tried: what came next when the program was here before

_TUPLE_OF_ONE = b"\x85"
_KEY_OF_ENTRIES = b"X\x07\x00\x00\x00entries"
_FIRST = re.compile(_KEY_OF_ENTRIES + rb"(?:q.|r.{4})\](?:q.|r.{4})?\((?=\})", re.DOTALL)
_BEGIN = re.compile(rb"\}(?:q.|r.{4})?\((?:h.|j.{4})", re.DOTALL)  # of an entry whose first name was written before


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
    fields: tuple[str, ...] = ()
    """The names of the fields of all entries that were cut out, in order."""


@dataclass(frozen=True, slots=True)
class Entries:
    """The entries of a dump, of which some are known by an earlier one and by their own numbers."""

    decoded: list[dict[str, Any]]
    """Those that were decoded."""
    decoded_as: Sequence[int]
    """For each entry the position in `decoded` of the one that it is, or that it repeats."""
    numbers: Mapping[str, Sequence[Any]]
    """For each of `NUMBERS` those of all entries; None or b"" where an entry has none."""


def shortened(data: bytes) -> Shortened | None:
    """The pickle without the entries that repeat earlier ones; None where none do, or where it is not as PyTorch writes it."""
    begin = data.find(_KEY_OF_ENTRIES) if len(data) >= FEWEST_BYTES else -1
    fields, behind_first = _first_entry(data, begin) if begin >= 0 else ((), 0)
    if tuple(name for name in fields if name in NUMBERS) != NUMBERS:
        return None
    known = layouts_of(fields)
    search, loop, cut = _Search(data, known), _Loop(), _Cut(data, fields)
    place, followers = behind_first, known.first
    while (found := search.next_entry(place, followers)) is not None:
        place, layout = found
        followers = layout.followers
        if cut.keeps(place, layout):
            place += layout.length
            continue
        place = cut.entry(place, layout)
        block = loop.next_block(layout)
        while block:
            if not block.is_at(data, place):
                loop.interrupted()
                break
            place = cut.entries(place, block)
            followers = block.members[-1].followers
            block = loop.after(block)
    return cut.rest()


class _Cut:
    """The shorter pickle as it is put together, front to back."""

    def __init__(self, data: bytes, fields: tuple[str, ...]) -> None:
        self._data = data
        self._short = Shortened(fields=fields)
        self._pieces: list[bytes] = []
        self._copied = 0
        """The position up to which the data is in `_pieces`, or was cut out."""
        self._end_of_run = -1
        self._kinds: dict[tuple[bytes, ...], int] = {}
        self._kind_of: dict[Layout, int] = {}
        self._of_run: tuple[list[int], list[Any]] = [], []
        """The kinds of the entries of the last run, and their numbers."""

    def keeps(self, place: int, layout: Layout) -> bool:
        """Whether the entry at `place` is the first of its kind, which stays, in a tuple."""
        if layout in self._kind_of:
            return False
        new = len(self._kinds)
        self._kind_of[layout] = self._kinds.setdefault(layout.fixed, new)
        if self._kind_of[layout] != new:
            return False
        end = place + layout.length
        self._pieces += (self._data[self._copied : end], _TUPLE_OF_ONE)
        self._copied = end
        return True

    def entry(self, place: int, layout: Layout) -> int:
        """Cut out the entry at `place`; returns the position behind it."""
        if place != self._end_of_run:
            number = len(self._short.runs).to_bytes(4, "little")
            self._pieces += (self._data[self._copied : place], b"J" + number)
            self._of_run = [], []
            self._short.runs.append(self._of_run)
        kinds, numbers = self._of_run
        kinds.append(self._kind_of[layout])
        return self._past(place, layout, numbers)

    def entries(self, place: int, block: LayoutBlock) -> int:
        """Cut out the entries at `place`, which continue a run; returns the position behind them."""
        kinds, numbers = self._of_run
        kinds += [self._kind_of[member] for member in block.members]
        return self._past(place, block, numbers)

    def _past(self, place: int, one: Layout | LayoutBlock, numbers: list[Any]) -> int:
        end = place + one.length
        numbers += one.numbers(self._data[place:end])
        self._copied = self._end_of_run = end
        return end

    def rest(self) -> Shortened | None:
        """The shorter pickle with what follows the last entry; None where nothing was cut out."""
        if not self._short.runs:
            return None
        self._short.data = b"".join((*self._pieces, self._data[self._copied :]))
        self._short.kinds = len(self._kinds)
        return self._short


class _Loop:
    """The layouts of a file's entries in order, and what came next when the program was at the same place before."""

    def __init__(self) -> None:
        self._trail: list[Layout] = []
        self._latest: dict[Layout, int] = {}
        self._blocks: dict[Layout, LayoutBlock] = {}
        self._before = -1
        self._compared_singly_until = 0

    def next_block(self, layout: Layout) -> LayoutBlock | None:
        """What should follow this entry, where the last entries were those of an earlier pass of the loop."""
        here, trail = len(self._trail), self._trail
        trail.append(layout)
        self._before, self._latest[layout] = self._latest.get(layout, -1), here
        if here < self._compared_singly_until or self._before < SAME_BEFORE:
            return None
        if trail[self._before - SAME_BEFORE : self._before] != trail[here - SAME_BEFORE : here]:
            return None
        return self._predicted()

    def _predicted(self) -> LayoutBlock | None:
        begin = self._before + 1
        upcoming = self._trail[begin : begin + MOST_OF_A_BLOCK]
        upcoming *= MOST_OF_A_BLOCK // len(upcoming)
        first = upcoming[0]
        if first not in self._blocks:
            cut = next((n for n, one in enumerate(upcoming) if n >= SAME_BEFORE and one in self._blocks), len(upcoming))
            members = tuple(upcoming[:cut])
            if cut < SAME_BEFORE or sum(member.length for member in members) > MOST_BYTES:
                return None
            self._blocks[first] = block_of(members)
        return self._blocks[first]

    def after(self, block: LayoutBlock) -> LayoutBlock | None:
        """What should follow this block, which was met."""
        here = len(self._trail)
        self._trail += block.members
        self._latest.update(zip(block.members, range(here, len(self._trail)), strict=True))
        self._before += len(block.members)
        return self._predicted()

    def interrupted(self) -> None:
        """The program did not do what it did before: the next entries are compared one by one."""
        self._compared_singly_until = len(self._trail) + SAME_BEFORE


class _Search:
    """Finds the next entry of a file where it is none of those that followed the last one before."""

    def __init__(self, data: bytes, known: Layouts) -> None:
        self._data, self._known = data, known
        self._bytes_left = MOST_SEARCHED

    def next_entry(self, place: int, followers: list[Layout]) -> tuple[int, Layout] | None:
        """The position of the next entry, and its layout; None where there is none near, or too much was searched.

        `followers` are the layouts that are tried at `place`; one that is found elsewhere becomes the first of them.
        """
        data = self._data
        for layout in followers:
            if int.from_bytes(data[place : place + layout.length], "little") & layout.mask == layout.value:
                return place, layout
        found = self._nearest(place)
        if found is not None and found[1] not in followers:
            followers.insert(0, found[1])
            del followers[FOLLOWERS:]
        return found

    def _nearest(self, place: int) -> tuple[int, Layout] | None:
        furthest = place + MOST_BYTES_BETWEEN
        while self._bytes_left > 0:
            head = _BEGIN.search(self._data, place, furthest)
            if head is None:
                return None
            begin = head.start()
            self._bytes_left -= begin - place
            walk = walked(self._data, begin)
            layout = self._known.layout(self._data, walk)
            if layout is not None:
                return begin, layout
            self._bytes_left -= walk.end - begin
            place = walk.end if walk.items else begin + 1  # no entry is within a dictionary that is none
        return None


def restored(items: object, short: Shortened) -> Entries | None:
    """The entries, given what the shorter pickle holds in their place; None where that is not what was written into it."""
    if not isinstance(items, list):
        return None
    decoded: list[dict[str, Any]] = []
    decoded_as: list[int] = []
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
            decoded_as += [first_of_kind[kind] for kind in kinds]
            for place, column in enumerate(columns.values()):
                column += numbers[place :: len(columns)]
            continue
        if type(item) is tuple and len(item) == 1:
            first_of_kind.append(len(decoded))
            item = item[0]
            if type(item) is not dict or tuple(item) != short.fields:
                return None
        if type(item) is not dict or not item.keys() >= columns.keys():
            return None
        decoded_as.append(len(decoded))
        decoded.append(item)
        for name, column in columns.items():
            column.append(item[name])
    if run != len(short.runs) or len(first_of_kind) != short.kinds:
        return None
    return Entries(decoded=decoded, decoded_as=decoded_as, numbers=columns)


def _first_entry(data: bytes, begin: int) -> tuple[tuple[str, ...], int]:
    """The names of the fields of the first entry behind the key at `begin`, in order, and the position behind that entry.

    No names where it is written in another way: it holds the texts of all keys, which the others refer to.
    """
    head = _FIRST.match(data, begin)
    if head is None:
        return (), begin
    walk = walked(data, head.end())
    keys = walk.items[::2]
    if any(data[key] != TEXT for key in keys):
        return (), begin
    texts = ((key + 5, int.from_bytes(data[key + 1 : key + 5], "little")) for key in keys)
    return tuple(data[begin : begin + length].decode(errors="replace") for begin, length in texts), walk.end
