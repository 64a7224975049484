"""Lists of objects that a loop goes over: how much work they are."""

from __future__ import annotations

import sys

from ddpdoctor.source.training_code import read_texts

_PROGRAM = """import torch
import torch.distributed as dist


class Meter:
    def log(self, model):
        torch.save(model.state_dict(), "last.pt")


def main():
    dist.init_process_group("nccl")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
    every = [Meter(), Meter()]
    for each in every:
{calls}

def others():
{made}

main()
"""


def test_calls_of_a_loop_variable_do_not_go_over_all_objects_of_the_class() -> None:
    _work(1)  # imports what is imported once
    once, twice, thrice = (_work(40 * times) for times in (1, 2, 3))

    assert thrice - twice <= 1.2 * (twice - once)


def _work(parts: int) -> int:
    """How many functions of Python are called while a program with so many calls and as many objects is read."""
    calls, made = "        each.log(model)\n" * parts, "    Meter()\n" * parts
    program = {"train.py": _PROGRAM.format(calls=calls, made=made)}
    count = 0

    def called(_frame: object, event: str, _arg: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(called)
    try:
        read_texts(program)
    finally:
        sys.setprofile(None)
    return count
