"""Which planted mistakes `lint` still names in programs that are written in other ways, and what it warns of in healthy ones.

python -m tests.rewritten                          # the table by rewrite and by rule
python -m tests.rewritten --rewrite "loop: " --show 5     # rewrites whose name begins so, with five of their losses
python -m tests.rewritten --program twenty-t01 --rewrite "test: named" --print
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from collections import Counter
from collections.abc import Iterator

from tests.rewritten.catalogue import REWRITES
from tests.rewritten.judged import Judged, judged, programs


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rewrite", default="", help="rewrites whose name begins so")
    parser.add_argument("--program", default="", help="programs whose name begins so")
    parser.add_argument("--code", default="", help="show only losses and false alarms of this code")
    parser.add_argument(
        "--show", type=int, default=0, help="how many losses and false alarms of each rewrite are named"
    )
    parser.add_argument("--print", action="store_true", help="print the rewritten programs that are shown")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    names = [name for name in REWRITES if name.startswith(options.rewrite)]
    with multiprocessing.Pool(options.workers) as pool:
        found = [one for each in pool.imap(_all_of, [(name, options.program) for name in names]) for one in each]
    for line in _lines(found, options):
        print(line)
    return 0


def _all_of(asked: tuple[str, str]) -> list[Judged]:
    name, start = asked
    every = [
        one for pattern in ("sick*.txt", "healthy*.txt") for one in programs(pattern) if one.name.startswith(start)
    ]
    found = []
    for one in every:
        try:
            given = judged(name, one, REWRITES[name])
        except (SyntaxError, ValueError, AssertionError, RecursionError) as error:
            print(f"{name} of {one.name}: {type(error).__name__} {error}", file=sys.stderr)
            continue
        if given is not None:
            found.append(given)
    return found


def _lines(found: list[Judged], options: argparse.Namespace) -> Iterator[str]:
    yield f"{'rewrite':32} programs  kept  lost    %  false alarms"
    for name in dict.fromkeys(one.rewrite for one in found):
        yield _line(name, [one for one in found if one.rewrite == name])
        bad = [one for one in found if one.rewrite == name and (one.lost or one.false)]
        bad = [one for one in bad if options.code in " ".join((*one.lost, *one.false))]
        for one in bad[: options.show]:
            yield f"    {one.program}: lost {', '.join(one.lost) or '-'}; false {', '.join(one.false) or '-'}"
            if options.print:
                yield from (f"### {file}\n{text}" for file, text in one.files.items())
    yield _line("all", found)
    kept, lost, false = (Counter(code for one in found for code in part(one)) for part in (_kept, _lost, _false))
    yield f"\n{'rule':32}           kept  lost    %  false alarms"
    for code in sorted({*kept, *lost, *false}):
        yield f"{code:32} {'':8} {kept[code]:5} {lost[code]:5} {_share(kept[code], lost[code])}  {false[code]}"


def _line(name: str, found: list[Judged]) -> str:
    kept, lost, false = (sum(len(part(one)) for one in found) for part in (_kept, _lost, _false))
    return f"{name:32} {len(found):8} {kept:5} {lost:5} {_share(kept, lost)}  {false}"


def _share(kept: int, lost: int) -> str:
    return f"{100 * kept / (kept + lost):4.0f}" if kept + lost else "   -"


def _kept(one: Judged) -> tuple[str, ...]:
    return one.kept


def _lost(one: Judged) -> tuple[str, ...]:
    return one.lost


def _false(one: Judged) -> tuple[str, ...]:
    return one.false


if __name__ == "__main__":
    sys.exit(main())
