"""Whether a call may be one of a process group of its own."""

import ast

import pytest

from ddpdoctor.source.stack_lines.group_arguments import passes_a_group


@pytest.mark.parametrize(
    ("call", "passes"),
    [
        ("dist.send(x.grad, self.mesh.peer)", False),
        ("dist.all_reduce(groups.values)", False),
        ("dist.send(x, self.peer, self.mesh)", True),
        ("dist.send(x, self.peer, self.mesh.dp)", True),
        ("dist.all_reduce(x, group=self.mesh.dp)", True),
        ("dist.all_reduce(x, op, mesh['dp'])", True),
        ("dist.broadcast(x, src, mesh.get_group())", True),
        ("self.group.all_reduce(x)", True),
        ("dist.all_reduce(*given)", True),
    ],
)
def test_what_an_object_named_as_a_group_holds_is_no_group(call: str, *, passes: bool) -> None:
    (expression,) = ast.parse(call).body
    assert isinstance(expression, ast.Expr)
    assert isinstance(expression.value, ast.Call)
    assert passes_a_group(expression.value) is passes
