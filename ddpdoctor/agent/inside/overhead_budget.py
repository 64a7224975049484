"""How often a rank looks closely: at every Kth step, or as often as a small share of the job's time allows."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable

import torch

from .trace_writer import TraceWriter

FIRST_SECONDS = 0.05  # what following may cost before the job has run for long
SPARSEST = 1 << 14
_set_grad_enabled: Callable[[bool], object] = torch._C._set_grad_enabled  # noqa: SLF001 - what torch.no_grad calls at last


class Budget:
    """Which steps are audited: every `every`th, or with 0 as many as cost `share` of the job's time.

    What is spent in the other steps counts, too: it is measured in some of them, see `adapt`. Where steps are so short that
    nothing would be left, audits get half.
    Inside `with budget:` autograd and autocast do not touch what is computed, and no garbage is collected: an audit makes many
    objects and hardly any garbage, and a full collection looks through all objects of the job. Blocks may be nested, and several
    threads may be in one.
    """

    def __init__(self, trace: TraceWriter, every: int, share: float) -> None:
        self.every = every
        self._trace = trace
        self._share = share
        self._start = time.perf_counter()
        self._last: dict[str, int] = {}
        self._extras: dict[str, tuple[float, float]] = {}  # when each was done last, and the seconds that it took
        self.interval = every or 1
        self.due = 0
        """From which clock on the next window is audited, averagings aside."""
        self._audits = 0.0  # seconds
        self._others = 0.0  # seconds in steps that were not audited
        self._seen = 0.0  # of the seconds spent
        self.follows_audit = False
        """Whether the last step was audited."""
        self._of_thread = _Entered()
        self._lock = threading.Lock()
        self._inside = 0  # blocks of all threads
        self._collects = False  # whether the first of these found the collector at work
        trace.interrupted.append(self.leave_all)

    @property
    def seconds(self) -> float:
        """Since the rank joined."""
        return time.perf_counter() - self._start

    def restart(self) -> None:
        """The clock starts again."""
        self._last.clear()
        self.due = 0

    def take(self, clock: int, what: str = "step") -> bool:
        """Whether the window that begins at `clock` is audited; intervals divide each other, so that ranks share audits.

        Each `what` has a clock of its own.
        """
        last = self._last.get(what)
        if last is not None and clock // self.interval <= last // self.interval:
            return False
        self._last[what] = clock
        self._know_due()
        return True

    def _know_due(self) -> None:
        last = self._last.get("step")
        self.due = 0 if last is None else (last // self.interval + 1) * self.interval

    def spare(self, what: str, extra: Callable[[], object]) -> None:
        """Do something beside the audits, unless what it cost last time is more than a share of the time since then."""
        began, (last, cost) = self.seconds, self._extras.get(what, (0.0, 0.0))
        if cost > self._share * (began - last):
            return
        with self:
            extra()
        self._extras[what] = began, self.seconds - began

    def adapt(self, *, audited: bool, stands_for: int = 1) -> None:
        """Audit more rarely where that costs too much, and more often where it costs little.

        A step has ended, which `stands_for` as many: this is not asked for after each.
        """
        follows, self.follows_audit = self.follows_audit, audited
        if self.every:
            return
        spent, share = self._trace.spent - self._seen, self._share * self.seconds
        self._seen = self._trace.spent
        if audited or follows:  # the end of an audit is seen at the next step
            self._audits += spent
        else:
            self._others += spent * stands_for
        allowed = FIRST_SECONDS + max(share - self._others, share / 2)
        if audited and self._audits > allowed and self.interval < SPARSEST:
            self.interval *= 2
            self._know_due()
        elif self._audits < allowed / 2 and self.interval > 1:
            self.interval //= 2
            self._know_due()

    def __enter__(self) -> None:
        blocks = self._of_thread.blocks
        outside = len(blocks)
        block = torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")
        collects = gc.isenabled()  # no handler that enters a block of its own can run while the lock is held
        try:
            with self._lock:
                blocks += [block]  # no signal is handled from here to the end of the next statement
                self._inside += 1
                if self._inside == 1 and collects:
                    self._collects = True
                    gc.disable()
            _set_grad_enabled(False)
            if block[1]:
                torch.set_autocast_enabled("cpu", False)
        except BaseException:  # of a handler of a signal: the block is not entered, and nobody else would put this back
            if len(blocks) > outside:
                self._leave()
            raise

    def __exit__(self, *_error: object) -> None:
        if self._of_thread.blocks:  # else `leave_all` was called in an inner one
            self._leave()

    def leave_all(self) -> None:
        """Leave the blocks of this thread: an exception of a signal handler may have come before the end of `__exit__`."""
        blocks = self._of_thread.blocks
        if blocks:
            with self._lock:
                self._inside -= len(blocks) - 1
                del blocks[1:]
            self._leave()

    def _leave(self) -> None:
        """Put back what the innermost block of this thread found; doing so again changes nothing, until the last statements."""
        blocks = self._of_thread.blocks
        had_grad, had_cast = blocks[-1]
        _set_grad_enabled(had_grad)
        if had_cast:
            torch.set_autocast_enabled("cpu", True)
        with self._lock:
            del blocks[-1]  # no signal is handled from here to the end of the next statement
            self._inside -= 1
            if not self._inside and self._collects:
                self._collects = False
                gc.enable()


class _Entered(threading.local):
    """The blocks that this thread is in: the modes of autograd and autocast are those of a thread."""

    def __init__(self) -> None:
        self.blocks: list[tuple[bool, bool]] = []  # whether autograd was on before, and autocast
