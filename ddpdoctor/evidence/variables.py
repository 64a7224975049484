"""What the installed libraries know of the environment variables that are set, and NCCL's files beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class NameLookup:
    """One variable that is set."""

    name: str
    """The variable, as it is set."""
    known: bool
    """Whether a library on this host holds the name."""
    nearest: str | None = None
    """The most similar name that one holds, where none holds this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownNames:
    """What the installed libraries know of the variables that are set and carry their prefixes."""

    read: tuple[str, ...]
    """The libraries that were searched."""
    judged: tuple[NameLookup, ...] = ()
    """One entry per variable whose library is here."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Old name to new name, where torch still reads the old one."""
    unjudged: Mapping[str, str] = field(default_factory=dict)
    """The variables whose library is not on this host, with the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NcclConfigFiles:
    """The files from which NCCL reads variables beside the environment."""

    files: Mapping[str, Mapping[str, str]]
    """Path to its settings; the first file that sets a variable wins."""


KINDS = {
    KnownNames: "known variable names",
    NcclConfigFiles: "NCCL configuration files",
}
