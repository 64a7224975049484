"""`python -m tests.ward`: what plain torchrun, torchfrtrace and ddpdoctor say of each sick job; `--repeat` counts errors."""

from __future__ import annotations

import argparse
import collections
import contextlib
import itertools
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from tests.ward import scoreboard
from tests.ward.cases import CASES, HEALTHY, Case, strangers
from tests.ward.jobs import is_root, torchrun, watch
from tests.ward.load import busy

REPEATED = ("DDP305-log", "DDP307-sleep", "DDP401")
HEALTHY_JOB = HEALTHY / "accumulates_with_no_sync.py"
PATIENCE = 30.0  # before a healthy job under load may be called stuck; what ddpdoctor itself takes at the least


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what was asked for; 1 where anything is wrong."""
    options = _parse(arguments)
    cases = _chosen(options.cases, with_strangers=options.strangers)
    if options.repeat:
        return repeat(cases, options.repeat, options.nproc, side_by_side=options.jobs)
    culprits = [options.nproc - 2] if options.culprit is None else options.culprit
    return scoreboard.run(cases, options.nproc, culprits, others=not options.only_ours, jobs=options.jobs)


def repeat(cases: Iterable[Case], times: int, nproc: int, *, side_by_side: int) -> int:
    """A healthy job and sick ones, again and again on a busy machine; counts false alarms and wrong names."""
    rounds = [None, *cases]
    said: collections.Counter[tuple[str, str]] = collections.Counter()

    def once(number: int, case: Case | None) -> tuple[str, str]:
        culprit = number % nproc
        if case is None:
            watched = watch(torchrun(HEALTHY_JOB, nproc), stall_after=PATIENCE)
            alarms = [finding["message"] for finding in watched.report["findings"] if finding["severity"] != "info"]
            if watched.ended.code != 0 and not alarms:
                alarms = [f"exit code {watched.ended.code}"]
            return "healthy", "; ".join(alarms) or "right"
        watched = watch(torchrun(case.program, nproc, case.arguments(culprit)), culprit=culprit)
        return case.name, "; ".join(case.wrongs(watched.report, culprit, nproc)) or "right"

    begin = time.monotonic()
    with busy(), ThreadPoolExecutor(side_by_side) as pool:
        numbered = ((number, case) for number in range(times) for case in rounds)
        for done, (name, verdict) in enumerate(pool.map(lambda pair: once(*pair), numbered), start=1):
            said[name, verdict] += 1
            if verdict != "right":
                print(f"{name}: {verdict}", flush=True)
            if sys.stderr.isatty():
                print(f"\r{done} of {times * len(rounds)}", end="", file=sys.stderr)
    print(f"{times} times each, {nproc} ranks, all cores busy, {time.monotonic() - begin:.0f} s")
    for name, verdicts in itertools.groupby(sorted(said), key=lambda key: key[0]):
        counts = {verdict: said[name, verdict] for _, verdict in verdicts}
        right = counts.pop("right", 0)
        print(f"{name:<24} right {right}, wrong {sum(counts.values())}")
    return int(any(verdict != "right" for _, verdict in said))


def _chosen(names: Sequence[str], *, with_strangers: bool) -> list[Case]:
    known = [*CASES, *(strangers() if with_strangers or names else ())]
    if names:
        unknown = set(names) - {case.name for case in known} - {case.code for case in known}
        if unknown:
            sys.exit(f"no such case: {', '.join(sorted(unknown))}; there are {', '.join(case.name for case in known)}")
        known = [case for case in known if case.name in names or case.code in names]
    return [case for case in known if is_root() or not case.needs_root]


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.ward", description=__doc__)
    parser.add_argument("cases", nargs="*", help="such as DDP305 or DDP307-lock; all by default")
    parser.add_argument("--nproc", type=int, default=4)
    parser.add_argument("--culprit", type=int, nargs="+", help="default: the last rank but one")
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
