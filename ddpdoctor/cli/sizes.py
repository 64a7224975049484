"""Sizes as people type and read them: powers of 1024, as in nccl-tests."""

from __future__ import annotations

import re

from ddpdoctor.errors import UsageError

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
STEP = 4  # each size of a range is four times the one before
LARGEST = 1 << 40
HINT = "write a range such as `1K..64M` (each size four times the last), or sizes such as `64K,1M,25M`"


def parse_sizes(text: str) -> tuple[int, ...]:
    """The sizes in bytes, ascending, of `1K..64M`, of `0,64K,1M`, or of a mix of both by commas.

    Raises:
        UsageError: a size cannot be read, is larger than 1T, or a range has no begin, no end or no size in it.
    """
    found = {size for part in text.split(",") for size in _parse_part(part.strip(), text)}
    return tuple(sorted(found))


def _parse_part(part: str, text: str) -> list[int]:
    low, dots, high = part.partition("..")
    if not dots:
        return [_parse_size(part, text)]
    first, last = _parse_size(low, text), _parse_size(high, text)
    if first > last:
        raise UsageError(f"--sizes {text} runs from {low} down to {high}", hint=f"write `{high}..{low}`")
    if first == 0:
        raise UsageError(
            f"--sizes {text}: a range cannot begin at 0", hint="write `0,1K..64M` to have a size of zero too"
        )
    sizes = []
    while first < last:
        sizes.append(first)
        first *= STEP
    return [*sizes, last]


def _parse_size(word: str, text: str) -> int:
    match = re.fullmatch(r"(\d+)([KMGT]?)(?:i?B)?", word.strip(), re.IGNORECASE)
    if match is None:
        raise UsageError(f"--sizes {text}: {word!r} is not a size", hint=HINT)
    size = int(match[1]) * UNITS[match[2].upper()]
    if size > LARGEST:
        raise UsageError(f"--sizes {text}: {word} is larger than 1T", hint=HINT)
    return size
