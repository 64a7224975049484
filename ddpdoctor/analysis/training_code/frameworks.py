"""Frameworks that do for a training script what it would otherwise have to do itself."""

from __future__ import annotations

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.evidence.training_code import Function

DOES_THE_DATA = frozenset(
    {"lightning", "fabric", "accelerate", "transformers", "ignite", "mmengine", "composer", "catalyst", "fastai", "detectron2",
     "webdataset", "torchdata", "deepspeed", "ray", "fairseq", "speechbrain", "nemo", "megatron", "colossalai", "torchtitan"}
)  # fmt: skip
"""Frameworks that give each rank its own data, or set the epoch of samplers, by themselves."""
DOES_THE_DEVICE = DOES_THE_DATA - {"webdataset", "torchdata"} | {
    "horovod",
    "xla",
    "sagemaker",
    "submitit",
    "jax",
    "tensorflow",
}
"""Frameworks that give each rank its device, or make the process group, by themselves."""


def is_hook_of_lightning(graph: CallGraph, function: Function) -> bool:
    """Whether this is a method of a LightningDataModule that Lightning calls in every process."""
    name = function.id.rpartition("::")[2]
    owner = name.rpartition(".")[0]
    module = graph.modules.get(function.id.partition("::")[0])
    hooks = {"setup", "train_dataloader", "val_dataloader", "test_dataloader"}
    return function.place.function in hooks and module is not None and owner in module.data_modules
