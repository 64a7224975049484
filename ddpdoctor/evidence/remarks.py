"""Comments that silence findings, in training code and in launch scripts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """A `# ddpdoctor: ignore[...]` comment."""

    file: str
    """The file it stands in."""
    line: int
    """The line that it stands on."""
    about: tuple[int, int]
    """The first and the last line of the statement whose findings it silences."""
    codes: tuple[str, ...]
    """The codes that it names; empty for all."""
