"""A variable with one definition is found without a search, exactly where the search finds that definition alone."""

from __future__ import annotations

import ast

from ddpdoctor.source.dataflow.reaching_definitions import only_definition, reaching
from ddpdoctor.source.syntax.walk import walk

PROGRAM = """\
def main(loader, fast):
    use(late)
    late = 1
    for batch in loader:
        use(batch)
        seen = batch
        use(seen)
        if fast:
            inner = seen
            use(inner)
        use(inner)
    use(seen)
    total = 0
    total += 1
    use(total)
    if fast:
        return
    use(late)
"""
FOUND = ["batch", "seen", "inner", "late"]
"""The names at whose use only the one definition of each can hold: not before it, behind its branch, or where there are two."""


def test_the_only_definition_is_what_a_search_finds_alone() -> None:
    _, main = walk(ast.parse(PROGRAM), "train.py")
    found = []
    for call in main.calls:
        if call.name != "use":
            continue
        name = ast.unparse(call.node.args[0])
        only = only_definition(main.definitions[name], call.order, call.block)
        if only is not None:
            found.append(name)
            assert reaching(main.definitions[name], call.order, call.block) == ([only], True)
    assert found == FOUND
