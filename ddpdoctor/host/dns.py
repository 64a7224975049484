"""Names to addresses, with a deadline: a sick resolver may take minutes to say no."""

from __future__ import annotations

import socket
import threading
from dataclasses import dataclass

DEADLINE_SECONDS = 5.0  # one try of the C library's resolver (resolv.conf's default timeout)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """The addresses of a name in the order that connections try them, or why it has none."""

    addresses: tuple[str, ...] = ()
    """In the order that connections try them; empty where there is none."""
    error: str | None = None
    """Why it has none; None where it has."""


def resolve(name: str, *, deadline_seconds: float = DEADLINE_SECONDS) -> Resolved:
    """What the resolver of this host says of `name`."""
    answer: list[Resolved] = []
    asking = threading.Thread(target=lambda: answer.append(_ask(name)), daemon=True)
    asking.start()
    asking.join(deadline_seconds)
    return answer[0] if answer else Resolved(error=f"no answer within {deadline_seconds:g} s")


def _ask(name: str) -> Resolved:
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        return Resolved(error=error.strerror)
    except (OSError, UnicodeError) as error:
        return Resolved(error=str(error))
    return Resolved(addresses=tuple(dict.fromkeys(str(address[0]) for *_, address in found)))
