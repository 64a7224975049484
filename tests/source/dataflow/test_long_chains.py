"""Values that come through many functions: what is known of them does not depend on which question was asked first."""

from __future__ import annotations

import pytest

from ddpdoctor.engine import diagnose
from tests.training_programs import source

HEAD = "import torch.distributed as dist\n\ndist.init_process_group('nccl')\n"
TAIL = "if f0({given}) == 0:\n    dist.barrier()\ndist.destroy_process_group()\n"
LONG = 100


def _program(given: str, *, shape: str) -> str:
    chain = "".join(f"def f{number}(x):\n    return {shape.format(next=number + 1)}\n\n\n" for number in range(LONG))
    return HEAD + chain + f"def f{LONG}(x):\n    return x\n\n\n" + TAIL.format(given=given)


@pytest.mark.parametrize("shape", ["f{next}(x)", "int(f{next}(x))"])
def test_the_rank_is_followed_through_many_functions(shape: str) -> None:
    """Each function asks for two more questions: a helper of a large project is reached through dozens of others."""
    found = diagnose(source(train=_program("dist.get_rank()", shape=shape)), select=("DDP730",)).findings
    assert [finding.code for finding in found] == ["DDP730"]


def test_a_constant_through_as_many_is_no_rank() -> None:
    """The healthy twin."""
    assert diagnose(source(train=_program("1", shape="f{next}(x)")), select=("DDP730",)).findings == ()
