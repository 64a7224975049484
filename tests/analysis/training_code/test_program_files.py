"""What the rules cost: twice as many programs take twice as many steps, whatever the rules look for in a program's files."""

from __future__ import annotations

import sys
from typing import Any

from ddpdoctor.analysis.training_code.call_graph import CallGraph, derive
from ddpdoctor.checks import ddp735_uneven_loop, ddp741_never_synchronised, ddp742_optimizer_misses_parameters
from ddpdoctor.source.training_code import read_texts
from tests.training_programs import GOOD

CHECKS = (ddp735_uneven_loop.check, ddp741_never_synchronised.check, ddp742_optimizer_misses_parameters.check)
FEW, MANY = 6, 24


def _graph(programs: int) -> CallGraph:
    return derive(read_texts({f"program{number:02}/train.py": GOOD for number in range(programs)}))


def _calls(graph: CallGraph) -> int:
    """How many functions are called, built-in ones too, while these rules look at all programs."""
    count = 0

    def called(_frame: object, event: str, _argument: Any) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    sys.setprofile(called)
    try:
        for check in CHECKS:
            assert not list(check(graph))
    finally:
        sys.setprofile(None)
    return count


def test_rules_take_as_many_steps_for_a_program_however_many_there_are() -> None:
    """No rule goes over the functions of all programs for each of its questions."""
    assert _calls(_graph(MANY)) < 1.1 * MANY / FEW * _calls(_graph(FEW))


def test_what_stands_near_a_function_is_of_its_own_programs_in_the_order_of_the_facts() -> None:
    """The functions and calls near a function are those of its own program."""
    graph = _graph(3)
    for function in graph.functions.values():
        file = function.place.file
        near = [each for each in graph.functions.values() if each.place.file == file]
        assert graph.files.functions_near(function) == near
        assert [call for _, call in graph.calls_near(function, "backward")] == [
            call for each in near for call in each.calls if call.does == "backward"
        ]


def test_methods_of_a_class_are_found_by_its_id() -> None:
    """Those of a class whose name begins alike are not among them."""
    text = (
        "import torch.distributed as dist\ndist.init_process_group()\n"
        "class Data:\n    def __len__(self):\n        return 1\n\nclass Data2:\n    def __len__(self):\n        return 2\n"
    )
    graph = derive(read_texts({"train.py": text}))

    assert [each.id for each in graph.files.functions_below("train.py::Data")] == ["train.py::Data.__len__"]
