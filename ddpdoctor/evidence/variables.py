"""What the installed libraries know of the environment variables that are set, and NCCL's files beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class NameLookup:
    """One variable that is set: whether a library on this host holds its name, else the nearest name that one holds."""

    name: str
    known: bool
    nearest: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownNames:
    """What the libraries in `read` say of the variables that are set and carry their prefixes.

    `renamed` maps an old name, which torch still reads, to the name that it has now. `unjudged` holds the variables whose
    library is not on this host, with the reason.
    """

    read: tuple[str, ...]
    judged: tuple[NameLookup, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)
    unjudged: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NcclConfigFiles:
    """The files from which NCCL reads variables beside the environment: path -> its settings, the first one wins."""

    files: Mapping[str, Mapping[str, str]]


KINDS = (KnownNames, NcclConfigFiles)
