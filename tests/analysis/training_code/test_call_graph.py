"""Which functions all ranks run: through long chains of calls, and by the names in the tests around."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

import pytest

from ddpdoctor.analysis.training_code.all_ranks import line_on_all_ranks, on_all_ranks
from ddpdoctor.analysis.training_code.call_graph import CallGraph, derive
from ddpdoctor.analysis.training_code.later_calls import backward_in
from ddpdoctor.checks.ddp757_synchronisation_in_every_step import check
from ddpdoctor.source.training_code import read_texts

LONG = 2000  # calls, more than Python's limit of frames
HEAD = """\
import torch
import torch.distributed as dist

dist.init_process_group("gloo")


"""
GUARDED = """\
def save(state, {name}):
    if {name}:
        torch.save(state, "a.pt")


def work(state):
    save(state, unknown())


work({{}})
"""


def test_a_long_chain_of_calls_is_followed() -> None:
    chain = "\n".join(f"def f{number}():\n    f{number - 1}()\n" for number in range(1, LONG))
    graph = derive(read_texts({"train.py": f"{HEAD}def f0():\n    print()\n{chain}\nf{LONG - 1}()\n"}))

    assert on_all_ranks(graph, graph.functions["train.py::f0"]) is True


def test_functions_that_call_each_other_in_a_ring_are_undecided() -> None:
    graph = derive(read_texts({"train.py": f"{HEAD}def a():\n    b()\n\n\ndef b():\n    a()\n"}))

    assert on_all_ranks(graph, graph.functions["train.py::a"]) is None
    assert on_all_ranks(graph, graph.functions["train.py::b"]) is None


@pytest.mark.parametrize(
    "name",
    ["rank", "my_rank", "localrank", "rank0", "is_main", "isMaster", "main_process", "is_global_zero", "IS_CHIEF"],
)
def test_a_test_whose_name_speaks_of_a_rank_may_ask_for_it(name: str) -> None:
    assert _on_all_ranks(name) is False


@pytest.mark.parametrize("name", ["remaining", "domain", "zero_grad", "ranking", "maintain", "franken"])
def test_a_name_that_holds_such_a_word_by_chance_does_not(name: str) -> None:
    assert _on_all_ranks(name) is True


def _on_all_ranks(name: str) -> bool:
    graph = derive(read_texts({"train.py": HEAD + GUARDED.format(name=name)}))
    function = graph.functions["train.py::save"]
    return all(line_on_all_ranks(graph, function, call) for call in function.calls if call.does == "save")


def test_the_search_for_passes_over_the_data_grows_with_the_program() -> None:
    """Four times the functions that train in passes: about four times the function calls of DDP757."""
    small, large = _passes(4), _passes(16)

    assert _calls_of_functions(lambda: list(check(large))) < 6 * _calls_of_functions(lambda: list(check(small)))


def _passes(number: int) -> CallGraph:
    """A graph of functions that make steps in a loop, and of others that call them and wait for all ranks."""
    waits = "        torch.cuda.synchronize()\n        dist.barrier()\n"
    text = f"{HEAD}model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))\n"
    for each in range(number):
        text += (
            f"def pass{each}(optimizer, loader):\n    for x in loader:\n        model(x).sum().backward()\n"
            f"        optimizer.step()\n\n\ndef train{each}(optimizer, loader):\n    for epoch in range(3):\n"
            + f"        pass{each}(optimizer, loader)\n{waits}" * 10
            + "\n\n"
        )
    graph = derive(read_texts({"train.py": text}))
    assert backward_in(graph, "train.py::train0") is not None
    return graph


def _calls_of_functions(asked: Callable[[], object]) -> int:
    """How many Python functions it calls."""
    called = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal called
        called += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        asked()
    finally:
        sys.setprofile(before)
    return called
