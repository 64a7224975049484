"""The process that the agent lives in, and its place in the job once it is known."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from .schema.call_ring import MOST_DIGITS
from .schema.call_texts import EnvWrite
from .signal_errors import is_the_jobs, pass_on


class Rank:
    """One process of the job. `number` and `world_size` are None until `init_process_group` is called in it.

    Files of this rank are called `PID.something` in `directory`. What the launcher set at the start counts where the script has
    removed it since.
    """

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.number: int | None = None
        self.world_size: int | None = None
        self.address = ""  # where it looks for the other ranks, as HOST:PORT
        self.writes: dict[str, EnvWrite] = {}  # by variable of the rendezvous, the line of the user's that set it last
        self.is_here = False
        """Whether this very process called `init_process_group`; False again in a forked child, such as a data loader worker."""
        self._sees_forks = False
        self._given_up: set[tuple[str, str]] = set()
        self._at_start = {name: os.environ.get(name, "") for name in ("RANK", "WORLD_SIZE")}

    def path(self, suffix: str) -> str:
        """The path of this rank's file `PID.suffix`."""
        return os.path.join(self.directory, f"{os.getpid()}.{suffix}")

    def place(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Note that this process is about to be a rank, and which, as far as the call or the environment names it."""
        self.is_here = True
        if not self._sees_forks:  # each observer of a step asks: to compare process ids would be a system call for each
            self._sees_forks = True
            os.register_at_fork(after_in_child=self._forked)
        given = [*args, *[None] * 6]
        self.number = self._given(kwargs.get("rank", given[4]), "RANK")
        self.world_size = self._given(kwargs.get("world_size", given[3]), "WORLD_SIZE")
        self.address = (
            "" if kwargs.get("store", given[5]) is not None else _address(kwargs.get("init_method", given[1]))
        )

    def joined(self, number: int, world_size: int) -> None:
        """Note the rank and the number of ranks that the process group has."""
        self.number, self.world_size = number, world_size

    def _given(self, given: Any, variable: str) -> int | None:  # noqa: ANN401 - what a user passes
        if isinstance(given, int) and given >= 0:
            return given
        text = os.environ.get(variable, self._at_start[variable])
        return int(text) if text.isdecimal() and len(text) < MOST_DIGITS else None

    def _forked(self) -> None:
        self.is_here = False

    def giving_up(self, what: str) -> GivingUp:
        """Swallow what fails inside and write it down for the report: the job must never notice."""
        return GivingUp(self, what)

    def give_up(self, what: str, why: str) -> None:
        """Write down what the agent cannot do in this rank, and why; once, however often it fails."""
        if (what, why) in self._given_up:
            return
        self._given_up.add((what, why))
        try:
            import json

            from .schema.rank_end import GaveUp

            rank = os.environ.get("RANK", "?") if self.number is None else self.number
            with open(self.path("gave-up"), "a", encoding="utf-8") as file:
                file.write(json.dumps(GaveUp(rank, what, why)) + "\n")
        except Exception as error:
            pass_on(error)


class GivingUp:
    """A block that may fail without the job's noticing. It holds no state, and can be entered any number of times."""

    __slots__ = ("_rank", "_what")

    def __init__(self, rank: Rank, what: str) -> None:
        self._rank, self._what = rank, what

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> bool:
        if kind is None or error is None or is_the_jobs(error):
            return False
        self.failed(error)
        return True

    def failed(self, error: BaseException) -> None:
        """Give up because of `error`, which was caught where entering a block would cost too much."""
        self._rank.give_up(self._what, f"{type(error).__name__}: {error}")


def _address(init_method: Any) -> str:  # noqa: ANN401 - what a user passes
    """`HOST:PORT` of the rendezvous that `init_process_group` is about to use; empty where it is no address."""
    if isinstance(init_method, str) and init_method.startswith("tcp://"):
        return init_method.removeprefix("tcp://").partition("?")[0].partition("/")[0]
    if init_method is None or str(init_method).startswith("env://"):
        host, port = os.environ.get("MASTER_ADDR", ""), os.environ.get("MASTER_PORT", "")
        return f"{host}:{port}" if host and port else ""
    return ""
