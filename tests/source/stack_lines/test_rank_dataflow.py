"""Which names of a file hold the rank, and which only look like it."""

from __future__ import annotations

import ast

import pytest

from ddpdoctor.source.stack_lines.rank_dataflow import names_of_the_rank, selected_ranks, tells_the_rank, values_by_rank


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("r = dist.get_rank()", {"r"}),
        ("r = dist.get_rank() if dist.is_initialized() else 0", {"r"}),
        ("r, w = dist.get_rank(), dist.get_world_size()", {"r"}),
        ("gpu = int(os.environ['LOCAL_RANK'])", {"gpu"}),
        ("gpu: int = int(os.getenv('SLURM_PROCID', 0))", {"gpu"}),
        ("args.gpu = int(os.environ.get('RANK', '0'))", {"args.gpu"}),
        ("r = get_rank()\nfirst = r == 0\nlast = not first", {"r", "first", "last"}),
        ("def work(i, args):\n    pass\nmp.spawn(work, args=(1,), nprocs=4)", {"i"}),
        ("def sizes():\n    return get_world_size(), get_rank()\nself.w, self.r = sizes()", {"self.r"}),
        ("def read():\n    return 1, 2\nw, r = read()", set()),
        ("r, w = mmcv.get_dist_info()", {"r"}),
        ("def leads():\n    return int(os.environ.get('RANK', 0)) == 0\nm = leads()", {"leads", "m"}),
        ("def leads():\n    return get_rank() == first()", set()),
        ("def leads():\n    if single():\n        return True\n    return get_rank() == 0", set()),
        ("w = int(os.environ['WORLD_SIZE'])", set()),
        ("r = get_rank()\ndevice = torch.device(f'cuda:{r}')\nmodel = DDP(net, [r])", {"r"}),
        ("r = get_rank()\nfor r in results:\n    pass", set()),
        ("r = get_rank()\nr = recall(x)", set()),
    ],
)
def test_names_that_hold_the_rank(source: str, names: set[str]) -> None:
    assert {*names_of_the_rank(ast.parse(source))} == names


OF_A_CLASS = """
class Comm:
    def start(self, g):
        self.rank = dist.get_rank()
        self.inner = dist.get_rank(g)
        self.half = self.rank % 2

    @property
    def main(self):
        return self.rank == 0
"""


@pytest.mark.parametrize(
    ("test", "selected"),
    [
        ("self.main", "rank == 0"),
        ("not self.main", "rank != 0"),
        ("self.rank == 2", "rank == 2"),
        ("self.half == 0", ""),
        ("self.inner == 0", ""),
        ("self.main and late", ""),
        ("other.main", ""),
    ],
)
def test_ranks_that_a_test_selects_whatever_names_stand_for_them(test: str, selected: str) -> None:
    names = names_of_the_rank(ast.parse(OF_A_CLASS))
    assert selected_ranks(ast.parse(test, mode="eval").body, names) == selected


@pytest.mark.parametrize(("test", "told"), [("r == owner", True), ("parts[args.gpu]", True), ("step % r2", False)])
def test_a_condition_with_such_a_name_tells_ranks_apart(test: str, *, told: bool) -> None:
    condition = ast.parse(test, mode="eval").body
    assert tells_the_rank(condition, frozenset({"r", "args.gpu"})) is told


@pytest.mark.parametrize(
    ("statement", "values"),
    [
        ("lr = get_lr(step * (1 + dist.get_rank() // 2), 10)", ["step * (1 + dist.get_rank() // 2)"]),
        ("lr = base * (1 + int(os.environ['RANK']))", ["base * (1 + int(os.environ['RANK']))"]),
        ("lr = base * r", ["base * r"]),
        ("data = Rows(640 if r else 624)", ["640 if r else 624"]),
        ("n = 640 if not args.process_index else 624", ["640 if not args.process_index else 624"]),
        ("n = 640 if late else 624", []),
        ("lr = base * dist.get_world_size()", []),
        ("lr = get_lr(step, self.rank * 2)", []),  # of a matrix, for all that this file says
        ("log(dist.get_rank())", []),
    ],
)
def test_arithmetic_with_the_rank(statement: str, values: list[str]) -> None:
    found = values_by_rank(ast.parse(statement).body[0], frozenset({"r"}))
    assert [ast.unparse(value) for value, _ in found] == values
