"""What objects of frameworks say of the rank, whatever they are called and however the test is written."""

from __future__ import annotations

import pytest

from ddpdoctor.analysis.training_code.all_ranks import line_on_all_ranks
from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.source.training_code import read_texts

PROGRAM = """\
import torch
import torch.distributed as dist
import wandb
from accelerate import Accelerator
from lightning.pytorch.utilities import rank_zero_only
from transformers import TrainerCallback


class Own(TrainerCallback):
    def _writes(self, args):
        return args.should_save

    def on_save(self, args, state, control, model=None, trainer=None, accelerator=None, **kwargs):
        {test}
            torch.save(model.state_dict(), "last.pt")


dist.init_process_group("nccl")
"""
OF_ONE_RANK = (
    "args.should_save",
    "self.args.should_save",
    "args.should_save and state.global_step > 10",
    "state.is_world_process_zero",
    "state.is_local_process_zero",
    "trainer.is_world_process_zero()",
    "trainer.is_global_zero",
    "trainer.global_rank == 0",
    "rank_zero_only.rank == 0",
    "accelerator.is_main_process",
    "Accelerator().is_local_main_process",
    "accelerator.is_last_process",
    "args.process_index == 0",
    "args.local_process_index == 0",
    "self._writes(args)",
)
OF_SOME_RANKS = (
    "wandb.run",
    "wandb.run is not None",
    "self._wandb.run is not None",
    "trainer.logger.experiment.disabled",
)
OF_ALL = ("control.should_save", "args.save_total_limit", "state.global_step % 10 == 0", "args.save_strategy != 'no'")


def _all_ranks_save(test: str) -> bool:
    graph = CallGraph(read_texts({"train.py": PROGRAM.format(test=test)}))
    ((function, call),) = graph.calls("save")
    return line_on_all_ranks(graph, function, call)


@pytest.mark.parametrize("test", [*OF_ONE_RANK, *OF_SOME_RANKS])
def test_a_test_that_asks_a_framework_for_the_rank_is_read(test: str) -> None:
    """As the condition of a branch, and of an early exit before the line."""
    assert not _all_ranks_save(f"if {test}:")
    assert not _all_ranks_save(f"if not ({test}):\n            return\n        if True:")


@pytest.mark.parametrize("test", OF_ALL)
def test_what_a_framework_tells_all_ranks_alike_is_no_test_of_the_rank(test: str) -> None:
    """The control of transformers has `should_save`, too: there it is what all ranks have been asked for."""
    assert _all_ranks_save(f"if {test}:")
    assert _all_ranks_save(f"if not ({test}):\n            return\n        if True:")


@pytest.mark.parametrize("test", OF_ONE_RANK)
def test_one_rank_passes(test: str) -> None:
    """The rank is certain, so that a collective under the test is a mistake."""
    graph = CallGraph(read_texts({"train.py": PROGRAM.format(test=f"if {test}:")}))
    ((_, call),) = graph.calls("save")

    assert any(guard.by_rank for guard in call.guards)


@pytest.mark.parametrize("decorator", ["accelerator.on_main_process", "accelerator.on_process(process_index=0)",
                                       "accelerator.on_last_process", "rank_zero_only",
                                       "idist.one_rank_only(rank=3)"])  # fmt: skip
def test_a_decorator_of_a_framework_runs_a_function_on_one_rank(decorator: str) -> None:
    """The hook calls what is decorated so."""
    text = PROGRAM.format(test=f"@{decorator}\n        def write():\n")
    graph = CallGraph(read_texts({"train.py": f"{text}".replace("\n\n\ndist", "\n        write()\n\n\ndist")}))
    ((function, call),) = graph.calls("save")

    assert not line_on_all_ranks(graph, function, call)


@pytest.mark.parametrize("written", ["{} is True", "{} == True", "not ({} is False)", "{} != False"])
def test_a_comparison_with_true_or_false_is_the_test_itself(written: str) -> None:
    """So the ranks that pass are known."""
    graph = CallGraph(read_texts({"train.py": PROGRAM.format(test=f"if {written.format('trainer.is_global_zero')}:")}))
    ((_, call),) = graph.calls("save")

    assert [guard.of_rank for guard in call.guards] == ["first"]


@pytest.mark.parametrize(
    "test",
    [
        'getattr(args, "should_save", True)',
        "torch.cuda.current_device() == 0",
        "model.device.index == 0",
        "isinstance(trainer.logger.experiment, wandb.sdk.wandb_run.Run)",
    ],
)
def test_what_may_ask_for_the_rank_is_not_passed_by_all_for_certain(test: str) -> None:
    """As a condition and as an early exit."""
    assert not _all_ranks_save(f"if {test}:")
    assert not _all_ranks_save(f"if not ({test}):\n            return\n        if True:")
