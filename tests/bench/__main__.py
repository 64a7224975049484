"""Runs every bench in this folder, one after the other: `python -m tests.bench [NAME...]`. Exit code 1 where one is off.

A bench is a module with `main() -> int` that prints its ratios, both sides measured in one run.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from pathlib import Path


def main(names: list[str]) -> int:
    """Run the benches called `names`, or all of them; returns the worst exit code."""
    found = [module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)]) if module.name != "__main__"]
    unknown = {*names} - {*found}
    if unknown:
        print(f"no bench is called {', '.join(sorted(unknown))}; there are {', '.join(found)}", file=sys.stderr)
        return 2
    return max(importlib.import_module(f"tests.bench.{name}").main() for name in names or found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
