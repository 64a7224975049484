"""How the ranks of an observed job ended, from what their parents collected and what they wrote themselves."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping

from ddpdoctor.collect.agents import Ended, RankProcess
from ddpdoctor.collect.processes import is_alive
from ddpdoctor.evidence.ranks import RankExit

BY_A_LAUNCHER = (-signal.SIGTERM, -signal.SIGKILL)


def exits_of(
    ranks: tuple[RankProcess, ...],
    ended: Mapping[int, Ended],
    *,
    main: tuple[int, int | None],
    killed_by_us: bool,
) -> dict[int, RankExit]:
    """By rank, the end of each rank that has ended. `main` is the command's own process and exit code."""
    found: dict[int, RankExit] = {}
    for agent, code, at in sorted(_ended(ranks, ended, main), key=lambda one: (one[2] is None, one[2])):
        error = agent.error()
        earlier = [exit_ for exit_ in found.values() if not exit_.ended_by_launcher]
        found[agent.rank] = RankExit(
            exit_code=code,
            error=error[0] if error is not None else None,
            ended_by_launcher=code in BY_A_LAUNCHER and (killed_by_us or bool(earlier)),
            ended_at=error[1] if error is not None else at,
            order=len(found),
            pid=agent.pid,
        )
    return found


def _ended(
    ranks: tuple[RankProcess, ...], ended: Mapping[int, Ended], main: tuple[int, int | None]
) -> Iterator[tuple[RankProcess, int | None, float | None]]:
    """Each rank that has ended, with its exit code and the time, as far as somebody saw them."""
    for agent in ranks:
        error = agent.error()
        if agent.pid in ended:
            at = ended[agent.pid].at
            yield agent, ended[agent.pid].code, min(at, error[1]) if error is not None else at
        elif agent.pid == main[0] and main[1] is not None:
            yield agent, main[1], error[1] if error is not None else agent.left_at()
        elif not is_alive(agent.pid):  # nobody told us its code
            yield agent, 1 if error is not None else None, error[1] if error is not None else agent.left_at()
        elif error is not None:  # it has failed but does not exit
            yield agent, None, error[1]
