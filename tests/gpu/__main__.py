"""`python -m tests.gpu`, or `make gpu`: what needs a GPU, in order of worth. Without a GPU every part says that it is skipped."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.gpu import machine as machines
from tests.gpu.machine import ROOT, Machine, NoGpu
from tests.gpu.parts import Part, parts
from tests.gpu.runner import keep, run

EVIDENCE = ROOT / "gpu-evidence"


def main(
    arguments: Sequence[str] | None = None,
    *,
    known: Sequence[Part] | None = None,
    machine: Machine | NoGpu | None = None,
) -> int:
    """Run the parts; 1 where one failed, 2 where no part has a given name. `known` and `machine` are for tests."""
    options = _parse(arguments)
    everything = parts() if known is None else known
    names = [part.name for part in everything]
    unknown = [name for name in options.parts if name not in names]
    if unknown:
        print(f"no part is called {', '.join(unknown)}; there are {', '.join(names)}", file=sys.stderr)
        return 2
    chosen = [part for part in everything if part.name in options.parts or not options.parts]
    if options.list:
        for part in chosen:
            print(f"{part.name}: {part.told} (at most {part.seconds:.0f} s)")
        return 0
    found = machine or machines.find(os.environ.get("GPU_PYTHON"))
    if isinstance(found, Machine):
        print(f"{found.python}: torch {found.torch}, NCCL {found.nccl}, {', '.join(found.gpus)}", flush=True)
        wrong = machines.install(found)
        if wrong is not None:
            found = NoGpu(wrong)
    ended = run(found, chosen, options.evidence, minutes=options.minutes, again=options.again)
    if options.keep is not None:
        print(f"kept for the tests: {', '.join(keep(options.evidence, options.keep)) or 'nothing'}")
    counts = {how: sum(one.how == how for one in ended.values()) for how in ("done", "failed", "skipped")}
    print(
        f"{counts['done']} done, {counts['failed']} failed, {counts['skipped']} skipped; evidence: {options.evidence}"
    )
    return int(counts["failed"] > 0)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.gpu", description=__doc__)
    parser.add_argument("parts", nargs="*", help="all by default; what was done before is not run again")
    parser.add_argument("--minutes", type=float, default=40.0, help="start no part that may end later (default 40)")
    parser.add_argument(
        "--evidence", type=Path, default=EVIDENCE, metavar="DIR", help="where the results and the state go"
    )
    parser.add_argument("--again", action="store_true", help="run parts that were done before, too")
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="copy the facts and the dumps there, for tests/gpu/kept"
    )
    parser.add_argument("--list", action="store_true", help="only list the parts")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
