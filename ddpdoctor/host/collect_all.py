"""Everything that can be known of the machine that this process runs on, in about the time of the slowest answer."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from ddpdoctor.evidence import Missing
from ddpdoctor.host.host_access import HostAccess

COLLECTORS = (
    "torch_build",  # the slowest starts first
    "gpus",
    "environment",
    "machine",
    "launcher",
    "packages",
    "limits",
    "network",
    "env_var_catalog",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """What the collectors of one process gave."""

    facts: tuple[Any, ...] = ()
    """Instances of kinds of evidence."""
    missing: tuple[Missing, ...] = ()
    """What could not be read, each with the reason."""
    notes: tuple[str, ...] = ()
    """The collectors that failed themselves, which are bugs of ddpdoctor."""


def collect(access: HostAccess) -> HostFacts:
    """What every collector gives: each module in `COLLECTORS` has `collect(access)`; they run side by side.

    A collector that fails becomes a note, never the end of the command. Ctrl-C ends every program that they started.
    """
    pool = ThreadPoolExecutor(max_workers=len(COLLECTORS), thread_name_prefix="collect")
    try:
        pending = {name: pool.submit(_listed, name, access) for name in COLLECTORS}
        answers = {name: future.exception() or future.result() for name, future in pending.items()}
    except BaseException:
        access.stop.set()
        raise
    finally:
        pool.shutdown()
    given = [fact for answer in answers.values() if isinstance(answer, list) for fact in answer]
    return HostFacts(
        facts=tuple(fact for fact in given if not isinstance(fact, Missing)),
        missing=tuple(fact for fact in given if isinstance(fact, Missing)),
        notes=tuple(
            f"the collector {name!r} failed, which is a bug in ddpdoctor: {type(answer).__name__}: {answer}"
            for name, answer in answers.items()
            if isinstance(answer, BaseException)
        ),
    )


def _listed(name: str, access: HostAccess) -> list[Any]:
    module = importlib.import_module(f"{__package__}.{name}")
    facts: Iterable[Any] = module.collect(access)
    return list(facts)
