"""What the nodes of a job leave for each other in a store that all reach."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

from ddpdoctor.transport.peer_message import PeerError, decoded

WAIT_SECONDS = 1.0  # in the store at a time: between two of them a pulse is looked at, and a signal is heard
LEAST_SECONDS = 0.02
PULSE_SECONDS = 0.5
SILENT_SECONDS = 5.0  # ten beats: a busy node skips some


class Store(Protocol):
    """The part of torch's TCPStore that this needs."""

    def set(self, key: str, value: str, /) -> None:
        """Keep `value` under `key`."""

    def get(self, key: str, /) -> bytes:
        """The value of a key that is there."""

    def add(self, key: str, amount: int, /) -> int:
        """Add to a counter that begins at 0, and return it."""

    def check(self, keys: list[str], /) -> bool:
        """Whether all keys are there."""

    def wait(self, keys: list[str], timeout: timedelta, /) -> None:
        """Return once all keys are there; RuntimeError where they are not in time, or the store has ended."""


@dataclass(frozen=True, slots=True)
class Messages:
    """The messages of one run of `ddpdoctor net`, as JSON under a prefix of its own."""

    store: Store
    """The store that all nodes reach."""
    prefix: str
    """Stands before each key: a launcher's store still has the messages of earlier runs."""

    def say(self, key: str, value: Any) -> None:  # noqa: ANN401 - anything JSON can hold
        """Leave a message that everybody may read."""
        self.store.set(f"{self.prefix}/{key}", json.dumps(value))

    def comes(self, key: str, *, until: float, while_alive: int | None = None) -> bool:
        """Whether there is a message under `key` by `until` (of `time.monotonic`).

        Where `while_alive` is a node, the wait also ends once that node's pulse has stopped for five seconds. The caller waits in
        the store, which answers when the key is set: hundreds that ask again and again would keep it from answering others.
        """
        full = f"{self.prefix}/{key}"
        beats, since = -1, time.monotonic()
        while not self.store.check([full]):
            now = time.monotonic()
            if while_alive is not None:
                latest = self.store.add(f"{self.prefix}/pulse/{while_alive}", 0)
                beats, since = (latest, now) if latest != beats else (beats, since)
            if now > until or (now - since > SILENT_SECONDS and while_alive is not None):
                return False
            with contextlib.suppress(RuntimeError):  # not in time; where the store has ended, `check` says so
                self.store.wait([full], timedelta(seconds=min(WAIT_SECONDS, max(LEAST_SECONDS, until - now))))
        return True

    def hear(self, key: str, kind: Any, *, until: float, while_alive: int | None = None) -> Any | None:  # noqa: ANN401
        """The message of type `kind` under `key`, or None where `comes` says that there is none.

        Raises:
            PeerError: the message is not of that type; the text names it.
        """
        if not self.comes(key, until=until, while_alive=while_alive):
            return None
        try:
            return decoded(self.store.get(f"{self.prefix}/{key}"), kind)
        except PeerError as error:
            raise PeerError(f"its message {key} cannot be used: {error}") from None

    def pulse(self, node: int, stop: threading.Event) -> None:
        """Show that `node` lives until `stop` is set.

        Run it in a thread, with a connection of its own: a store answers one request of a connection at a time.
        """
        while not stop.wait(PULSE_SECONDS):
            self.count(f"pulse/{node}")

    def count(self, key: str) -> int:
        """How many have counted themselves under `key`, this caller included."""
        return self.store.add(f"{self.prefix}/{key}", 1)

    def counted(self, key: str) -> int:
        """How many have counted themselves under `key` by now."""
        return self.store.add(f"{self.prefix}/{key}", 0)
