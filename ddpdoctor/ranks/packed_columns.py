"""The columns of a training trace: fingerprints, parities and indices of many tensors, written as one text."""

from __future__ import annotations

import base64
import zlib
from array import array
from collections.abc import Mapping, Sequence

from ddpdoctor.agent.inside.schema import step_records
from ddpdoctor.evidence.audited_steps import PartMark

MOST_INDEX_BYTES = 1 << 27
FINGERPRINT_DIGITS = 16


def fingerprints(joined: str) -> list[str]:
    """The fingerprints that one text joins."""
    return [joined[start : start + FINGERPRINT_DIGITS] for start in range(0, len(joined), FINGERPRINT_DIGITS)]


def named_digests(names: Sequence[str] | None, digests: str) -> dict[str, str]:
    """The fingerprints by the names of their tensors; as many as there are names."""
    return dict(zip(names or (), fingerprints(digests), strict=True))


def parities_by_name(names: Sequence[str], joined: str) -> dict[str, int]:
    """The parities by the names of their tensors, without those that were not taken."""
    words = zip(names, fingerprints(joined), strict=False)
    return {name: int(word, 16) for name, word in words if not word.startswith("-")}


def parts_of(parts: Mapping[str, step_records.Part]) -> dict[str, tuple[int, str]]:
    """Holder and fingerprint of each part."""
    return {name: (part.holder, part.digest) for name, part in parts.items()}


def marks_of(parts: Mapping[str, step_records.Part]) -> dict[str, PartMark]:
    """The marks of those parts whose parity was taken."""
    return {
        name: PartMark(writes=part.writes, parity=int(part.parity, FINGERPRINT_DIGITS), bits=part.bits)
        for name, part in parts.items()
        if part.parity
    }


def indices_of(packed: str) -> tuple[int, ...]:
    """The indices that one text packs; a text that would unpack to more than `MOST_INDEX_BYTES` is cut."""
    numbers = array("q")
    numbers.frombytes(zlib.decompressobj().decompress(base64.b64decode(packed), MOST_INDEX_BYTES))
    return tuple(numbers)
