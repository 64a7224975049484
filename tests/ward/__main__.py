"""`python -m tests.ward`: what plain torchrun, torchfrtrace and ddpdoctor say of each sick job; `--repeat` counts errors."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Sequence

from tests.ward import scoreboard
from tests.ward.cases import CASES, STYLES, Case, strangers
from tests.ward.jobs import is_root
from tests.ward.repeats import repeat

WAYS = ("watch", "hang", "diagnose", "pipe")
REPEATED = ("DDP305-log", "DDP307-sleep", "DDP401")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what was asked for; 1 where anything is wrong."""
    options = _parse(arguments)
    cases = _chosen(options.cases, with_strangers=options.strangers)
    if options.repeat:
        return repeat(cases, options.repeat, options.nproc, side_by_side=options.jobs)
    culprits = [options.nproc - 2] if options.culprit is None else options.culprit
    others = not options.only_ours
    return scoreboard.run(
        cases,
        options.nproc,
        culprits,
        styles=options.style,
        ways=options.by,
        others=others,
        jobs=options.jobs,
    )


def _chosen(names: Sequence[str], *, with_strangers: bool) -> list[Case]:
    known = [*CASES, *(strangers() if with_strangers or names else ())]
    if names:
        unknown = set(names) - {case.name for case in known} - {case.code for case in known}
        if unknown:
            sys.exit(f"no such case: {', '.join(sorted(unknown))}; there are {', '.join(case.name for case in known)}")
        exactly = {case.name for case in known}.intersection(names)
        known = [case for case in known if case.name in exactly or case.code in set(names) - exactly]
    return [case for case in known if is_root() or not case.needs_root]


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.ward", description=__doc__)
    parser.add_argument("cases", nargs="*", help="such as DDP305 (all of that code) or DDP307-lock; all by default")
    parser.add_argument("--nproc", type=int, default=4)
    parser.add_argument("--culprit", type=int, nargs="+", help="default: the last rank but one")
    parser.add_argument("--style", nargs="+", choices=STYLES, default=STYLES, help="both by default")
    parser.add_argument(
        "--by",
        nargs="+",
        choices=WAYS,
        default=WAYS[:1],
        help="hang and diagnose look at a job that runs alone; pipe: its ranks dump their recorders on request",
    )
    parser.add_argument("--strangers", action="store_true", help="the jobs of tests/ward/strangers too")
    parser.add_argument("--only-ours", action="store_true", help="leave plain torchrun and torchfrtrace out")
    parser.add_argument("--jobs", type=int, default=1, help="how many jobs side by side")
    parser.add_argument("--repeat", type=int, metavar="N", help="a healthy job and sick ones N times on a busy machine")
    options = parser.parse_args(arguments)
    if options.repeat and not options.cases:
        options.cases = list(REPEATED)
    return options


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        sys.exit(main())
