"""The sick jobs that ship with ddpdoctor: one program a fault, in reference_train/faults, named after its rule."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path

from ddpdoctor.errors import UsageError
from ddpdoctor.launch.ranks import our_file


def faults() -> Mapping[str, Path]:
    """Every fault that can be injected: its code, and the program that has it."""
    folder = our_file("reference_train", "faults")
    return {path.name[:6].upper(): path for path in sorted(folder.glob("ddp[1-7][0-9][0-9]_*.py"))}


def find_fault(word: str) -> Path:
    """The program of the fault with this code or name, in either case.

    Raises:
        UsageError: there is none; the nearest one is suggested, or all are listed.
    """
    by_name = {path.stem[7:].replace("_", "-"): path for path in faults().values()}
    known = {**faults(), **by_name}
    for key in (word.upper(), word.lower()):
        if key in known:
            return known[key]
    near = difflib.get_close_matches(word.lower(), by_name, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    raise UsageError(f"{word!r} is not a fault that can be injected", hint=f"{hint}there are: {', '.join(faults())}")
