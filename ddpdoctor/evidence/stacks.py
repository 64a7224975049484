"""What the threads of a rank were executing when somebody looked."""

from __future__ import annotations

from dataclasses import dataclass

from ddpdoctor.evidence.frames import Frame


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    """One thread, its frames innermost first.

    `native` are the names of the C and C++ functions above its innermost Python frame, innermost first, where they were
    asked for. `active` means on a CPU, or ready for one.
    """

    name: str
    frames: tuple[Frame, ...]
    os_id: int | None = None
    main: bool = False
    active: bool = False
    holds_gil: bool = False
    native: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stacks:
    """Every thread of one rank at one moment, and whether the main thread was elsewhere when looked at a second time.

    `source` is `py-spy` or `worker server`. `moved` is None where there was no second look. `gil_never_free` is True
    where a thread held the GIL at every look and nothing else in the process got hold of it in between.
    """

    source: str
    threads: tuple[Thread, ...]
    moved: bool | None = None
    gil_never_free: bool = False

    @property
    def main(self) -> Thread | None:
        """The main thread, in which a training loop runs; None where it could not be told."""
        return next((thread for thread in self.threads if thread.main), None)

    @property
    def gil_holder(self) -> Thread | None:
        """The thread that held the GIL when we looked."""
        return next((thread for thread in self.threads if thread.holds_gil), None)


KINDS = (Stacks,)
