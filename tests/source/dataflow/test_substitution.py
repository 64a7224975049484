"""Helpers that are given literals, partials and comprehensions are followed with a bounded number of copies."""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence
from ddpdoctor.source import training_code
from ddpdoctor.source.dataflow.evaluator import Evaluator
from ddpdoctor.source.dataflow.substitution import MOST_COPIED, MOST_DEEP, Substitutions, is_small
from ddpdoctor.source.program.program_code import ProgramCode
from tests.training_programs import UNDER_A_TEST

PROGRAM = "from functools import partial\nfrom torch import nn\n{helpers}\n" + UNDER_A_TEST

Lint = Callable[..., tuple[list[str], int]]
READ = "def read(key):\n    return os.environ[key]"
BLOCK = """\
class Block(nn.Module):
    def __init__(self, dim, norm_layer=nn.LayerNorm):
        super().__init__()
        norm_layer = partial(norm_layer, eps=1e-6)
        self.norm = norm_layer(dim)"""
LOOKUP = """\
def lookup(key):
    return os.environ.get(key) or lookup("RANK") or lookup("SLURM_PROCID") or lookup("LOCAL_RANK")"""
NAMES = """\
def names_of(t, prefix=""):
    return names_of(t.left, "l") + names_of(t.right, "r") + [prefix]"""
HANOI = """\
def hanoi(n, a, b, c):
    return hanoi(n - 1, a, c, b) + [(a, c)] + hanoi(n - 1, b, a, c)"""
CHAIN = "\n".join(f'def h{n}(k):\n    return h{n + 1}("x{n}" + k) + h{n + 1}("y{n}") + h{n + 1}(k)' for n in range(30))
SETUP = """\
def setup(backend):
    return dist.get_world_size(), dist.get_rank(), backend"""
LONG = "def read(key):\n    return " + " + ".join(["os.environ[key]"] * 900)
DEFAULTS = "\n".join(
    [
        f"def read({', '.join(f'p{n}=0' for n in range(200))}):",
        f"    return {' or '.join(f'p{n}' for n in range(200))}",
        *(f'value_{n} = read("literal {n}")' for n in range(300)),
    ]
)


@pytest.fixture
def lint(monkeypatch: pytest.MonkeyPatch) -> Lint:
    """The codes of what is found in a program with these helpers, and how many copies were made for it."""

    def found(helpers: str, test: str, before: str = "pass") -> tuple[list[str], int]:
        made: list[Substitutions] = []

        def evaluator_of(code: ProgramCode) -> Evaluator:
            values = Evaluator(code)
            made.append(values.substitutions)  # the values themselves are released in the end
            return values

        monkeypatch.setattr(training_code, "Evaluator", evaluator_of)
        code = training_code.read_texts({"train.py": PROGRAM.format(helpers=helpers, before=before, test=test)})
        (substitutions,) = made
        report = diagnose(Evidence(job=(code,), launched=False), select=("DDP730",))
        return [one.code for one in report.findings], len(substitutions.copies)

    return found


@pytest.mark.parametrize(
    ("helpers", "test", "before"),
    [
        (READ, 'read("RANK") == "0"', "pass"),
        ("read = lambda key: os.environ[key]", 'read("RANK") == "0"', "pass"),
        (LOOKUP, 'lookup("A") == "0"', "pass"),
        (READ, 'rank == "0"', 'rank, size = (read(key) for key in ("RANK", "WORLD_SIZE"))'),
        (READ, 'rank == "0"', 'rank, size = map(read, ("RANK", "WORLD_SIZE"))'),
        (SETUP, "rank == 0", 'size, rank, _ = setup("gloo")'),
    ],
)
def test_the_rank_is_known_through_a_helper(lint: Lint, helpers: str, test: str, before: str) -> None:
    codes, copies = lint(helpers, test, before)
    assert codes == ["DDP730"]
    assert copies < 10


@pytest.mark.parametrize(
    ("helpers", "test", "before"),
    [
        (READ, 'read("WORLD_SIZE") == "2"', "pass"),
        (READ, 'size == "2"', 'rank, size = (read(key) for key in ("RANK", "WORLD_SIZE"))'),
        (SETUP, "size > 1", 'size, rank, _ = setup("gloo")'),
        (SETUP, "backend == 'gloo'", '*_, backend = setup("gloo")'),
        ("def parse(text):\n    return text, dist.get_rank(), 3", 'text == "abc"', 'text, first, n = parse("abc")'),
        (BLOCK, "Block(4).training", "pass"),
        ("def go(fn, b):\n    fn = partial(fn, training=False)\n    return fn(b)", "go(len, [])", "pass"),
        ("fn = partial(fn, 1)\na = partial(b)\nb = partial(a)", "a() or fn()", "pass"),
        (NAMES, 'names_of(tree, "x")', "pass"),
        (HANOI, 'hanoi(3, "left", "middle", "right")', "pass"),
        ("f = lambda n: f(1) + f(2) + n", "f(3)", "pass"),
        (CHAIN, 'h0("a")', "pass"),
        (LONG, 'read("WORLD_SIZE")', "pass"),
        ("pass", "size", f"rank, size = ({' + '.join(['os.environ[key]'] * 900)} for key in ('RANK', 'WORLD_SIZE'))"),
        (DEFAULTS, "value_0", "pass"),
    ],
)
def test_a_healthy_program_is_left_alone_with_few_copies(lint: Lint, helpers: str, test: str, before: str) -> None:
    codes, copies = lint(helpers, test, before)
    assert codes == []
    assert copies <= 100


def test_a_chain_of_partials_leads_to_the_function(lint: Lint) -> None:
    partials = "inner = partial(is_first, 1)\nouter = partial(inner, 2)"
    assert lint(f"{partials}\ndef is_first(*_):\n    return dist.get_rank() == 0", "outer()")[0] == ["DDP730"]


def expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


@pytest.mark.parametrize(
    ("body", "copied"),
    [
        ("os.environ[key]", "os.environ['RANK']"),
        ("[key for key in names]", "[key for key in names]"),
        ("[name + key for name in names]", "[name + 'RANK' for name in names]"),
        ("(lambda key: key)(key)", "(lambda key: key)('RANK')"),
        ("(lambda name, key=key: key)(1)", "(lambda name, key=key: key)(1)"),
        ("(key := other) or key", "(key := other) or key"),
        ("{key: self.key for self.key in key}", "{'RANK': self.key for self.key in 'RANK'}"),
    ],
)
def test_only_the_names_that_a_body_takes_from_its_function_are_replaced(body: str, copied: str) -> None:
    found = Substitutions().body(expression(body), {"key": ast.Constant(value="RANK")})
    assert found is not None
    assert ast.unparse(found) == copied


def test_equal_literals_share_one_copy_and_other_types_do_not() -> None:
    substitutions, body = Substitutions(), expression("f(key) + g(1)")
    one, again, true = (substitutions.body(body, {"key": ast.Constant(value=value)}) for value in (1, 1, True))
    assert one is again is not true
    assert isinstance(one, ast.BinOp)
    assert isinstance(body, ast.BinOp)
    assert one.right is body.right
    assert substitutions.is_copied(one.left)
    assert not substitutions.is_copied(one.right)


def test_an_element_that_a_comprehension_would_capture_is_not_put_in() -> None:
    node = expression("([(key, name) for name in names] for key in (name, other))")
    found = [Substitutions().element(node, index) for index in (0, 1, 2, -1)]
    assert [one and ast.unparse(one) for one in found] == [
        "[(key, name) for name in names]",
        "[(other, name) for name in names]",
        None,
        None,
    ]


@pytest.mark.parametrize("large", ["+".join(["key"] * MOST_COPIED), "not " * 900 + "key", "key" + "()" * MOST_DEEP])
def test_what_is_too_large_is_not_copied(large: str) -> None:
    body = expression(large)
    assert not is_small(body)
    assert Substitutions().body(body, {"key": ast.Constant(value="RANK")}) is None
