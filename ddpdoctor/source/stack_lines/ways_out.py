"""The statements by which a run leaves a loop or its turn, or does not reach a statement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ddpdoctor.analysis.collectives.places.rank_tests import tells_ranks_apart
from ddpdoctor.evidence.source import Jump
from ddpdoctor.source.stack_lines.conditions_around import ConditionsAround
from ddpdoctor.source.syntax.code_text import MAX_TEST
from ddpdoctor.source.syntax.scopes import Block, RawExit, RawLoop, RawStatement, Scope


def jumps_of_loop(loop: RawLoop, scope: Scope, conditions: ConditionsAround) -> Iterator[Jump]:
    """The statements that leave the loop or its turn; of loops inside of it only the `return`s."""
    for leaves in scope.exits:
        if leaves.form not in {"break", "continue", "return"} or not leaves.block.inside(loop.body):
            continue
        inside = leaves.block.chain()[loop.body.depth + 1 :]
        if leaves.form == "return" or not any(block.form in {"for", "while"} for block in inside):
            yield _jump(leaves, inside, conditions)


def exits_before(found: RawStatement, scope: Scope, conditions: ConditionsAround) -> Iterator[Jump]:
    """The `return`s under a condition that a run may meet before or after a statement, and the handlers of its errors."""
    for leaves in scope.exits:
        if leaves.form == "swallow" and any(block.node is leaves.block.node for block in found.block.chain()):
            caught = conditions.of_block(leaves.block)
            if caught is not None and found.node.lineno < caught.line:
                yield Jump(line=caught.line, word=caught.test)
        elif leaves.form == "return" and not leaves.block.excludes(found.block):
            jump = _jump(leaves, [block for block in leaves.block.chain() if not found.block.inside(block)], conditions)
            if jump.test:
                yield jump


def _jump(leaves: RawExit, inside: Sequence[Block], conditions: ConditionsAround) -> Jump:
    """A way out with the test of it that is shown; `inside` are the blocks around it, from the outermost that counts."""
    around = (conditions.of_block(block) for block in reversed(inside) if block.form in {"if", "else"})
    tests = [test for test in around if test is not None]
    shown = next(filter(tells_ranks_apart, tests), tests[0] if tests else None)
    further = [first for first in tests[:1] if shown is not None and first is not shown and shown.holds and first.holds]
    return Jump(
        line=leaves.node.lineno,
        word=leaves.form,
        test=" and ".join(test.test for test in (shown, *further) if test is not None)[:MAX_TEST],
        by_rank=shown is not None and shown.by_rank,
        branch=0 if shown is None or shown.holds else 1,
        tested=shown.line if shown is not None else 0,
    )
