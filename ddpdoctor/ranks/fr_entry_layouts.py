"""How the entries of a pickled dump are laid out: which bytes are numbers, and what the others are where entries repeat."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from struct import Struct

from ddpdoctor.ranks.pickle_walk import GETS, LENGTHS, LONG, PickleWalk

MOST_OF_LAYOUTS = 1 << 20  # bytes of entries whose layouts are kept; they take eight times as much
MOST_BLOCKS = 64  # that are kept

NUMBERS = ("collective_seq_id", "p2p_seq_id", "time_created_ns", "time_discovered_completed_ns")
"""The numbers of an entry that a record keeps, in the order in which PyTorch writes them."""
_UNUSED = frozenset({"record_id", "op_id", "seq_id", "duration_ms", "time_discovered_started_ns"})

_NO_NUMBER = "0s"  # reads no byte and gives b""
_NONE = ord("N")
_LONG_OF_EIGHT_BYTES = b"\x8a\x08"
_FORMS = {ord("K"): "B", ord("M"): "H", ord("J"): "i", LONG: "q"}
_NUMBER_CODES = frozenset({*_FORMS, ord("G"), _NONE})  # a float is skipped, and never one of `NUMBERS`


class Layout:
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
        self.followers: list[Layout] = []
        """The layouts of entries that came next when the program was here before, the latest first."""


class LayoutBlock:
    """The layouts of entries that follow each other, compared at once."""

    __slots__ = ("length", "mask", "members", "numbers", "value")

    def __init__(self, members: tuple[Layout, ...]) -> None:
        self.members = members
        self.length = sum(member.length for member in members)
        self.mask = int.from_bytes(b"".join(one.mask.to_bytes(one.length, "little") for one in members), "little")
        self.value = int.from_bytes(b"".join(one.value.to_bytes(one.length, "little") for one in members), "little")
        self.numbers = Struct("<" + "".join(member.form for member in members)).unpack

    def is_at(self, data: bytes, place: int) -> bool:
        """Whether these entries, with any numbers, are at `place`."""
        return int.from_bytes(data[place : place + self.length], "little") & self.mask == self.value


block_of = lru_cache(maxsize=MOST_BLOCKS)(LayoutBlock)


class Layouts:
    """What is known of entries with the same fields: their names, and the layouts that were met, in all files."""

    def __init__(self, fields: tuple[str, ...]) -> None:
        self.fields = fields
        self._layouts: dict[tuple[tuple[bytes, ...], str, tuple[tuple[int, int], ...]], Layout] = {}
        self._size = 0
        self.first: list[Layout] = []

    def layout(self, data: bytes, walk: PickleWalk) -> Layout | None:
        """The layout of this entry, one object for all that are laid out and filled alike; None where it has other fields."""
        keys, values = walk.items[::2], walk.items[1::2]
        if len(keys) != len(self.fields) or not GETS.issuperset(map(data.__getitem__, keys)):
            return None
        parts = [(begin, end, False) for begin, end in walk.puts]
        for name, begin in zip(self.fields, values, strict=True):
            code, known = data[begin], name in NUMBERS
            number = code in _NUMBER_CODES and (code != LONG or data.startswith(_LONG_OF_EIGHT_BYTES, begin))
            if known and (not number or code == ord("G")):
                return None
            if number and (known or name in _UNUSED):
                parts.append((begin, begin + LENGTHS[code] + 8 * (code == LONG), known))
        return self._laid_out(data[walk.begin : walk.end], walk.begin, sorted(parts))

    def _laid_out(self, entry: bytes, start: int, parts: Iterable[tuple[int, int, bool]]) -> Layout:
        """The layout of an entry that begins at `start`, of which these parts may differ; those with True are `NUMBERS`."""
        fixed: list[bytes] = []
        holes: list[tuple[int, int]] = []
        form, read, done = "", 0, 0
        for first, behind, known in parts:
            begin, end = first - start, behind - start
            fixed.append(entry[done:begin])
            done = end
            if end - begin > 1:
                code, argument = entry[begin], begin + 1 + (entry[begin] == LONG)
                holes.append((argument, end))
                if known:
                    form += f"{argument - read}x{_FORMS[code]}"
                    read = end
            elif known:
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
            self._layouts[key] = Layout(entry, key[0], holes, form)
        return self._layouts[key]


layouts_of = lru_cache(maxsize=8)(Layouts)
