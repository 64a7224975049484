"""The environment variables that decide how a job runs, and what the installed libraries know of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Variables:
    """The environment of one process, from an allow-list of names: a secret never gets here."""

    values: Mapping[str, str]

    def get(self, name: str) -> str | None:
        """The value of one variable, or None where it is not set."""
        return self.values.get(name)

    def on(self, name: str) -> bool:
        """Whether a variable is set to something else than nothing, `0`, `false`, `no` or `off`."""
        return self.values.get(name, "").strip().lower() not in {"", "0", "false", "no", "off", "n", "f"}


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


KINDS = (Variables, KnownNames, NcclConfigFiles)
