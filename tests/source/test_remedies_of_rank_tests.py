"""What a remedy says to move: the line under the test of the rank, in the caller where that has the test."""

from __future__ import annotations

from ddpdoctor.engine import diagnose
from tests.training_programs import training

STEP = "            optimizer.step()\n"
MAIN = "def main():\n"


def remedies(helper: str, *lines: str) -> list[str]:
    """Those of DDP769, where the program steps by these lines and has this helper."""
    changed = training((MAIN, f"{helper}\n\n\n{MAIN}"), (STEP, "".join(f"            {line}\n" for line in lines)))
    return [finding.remedy for finding in diagnose(changed).findings if finding.code == "DDP769"]


def test_the_call_is_moved_out_of_a_test_in_the_caller() -> None:
    helper = "def update(optimizer):\n    optimizer.step()"
    assert remedies(helper, "if rank == 0:", "    update(optimizer)") == ["move line 55 out of `if rank == 0`"]


def test_a_step_is_moved_out_of_a_function_whose_decorator_tests_the_rank() -> None:
    helper = (
        "def rank_zero_only(run):\n    def on_rank_0(*given):\n        if dist.get_rank() == 0:\n            return run(*given)\n"
        "\n    return on_rank_0\n\n\n@rank_zero_only\ndef update(optimizer):\n    optimizer.step()"
    )
    (remedy,) = remedies(helper, "update(optimizer)")
    assert remedy == "move line 33 out of the function that @rank_zero_only runs on one rank"
