"""Frameworks that do for a training script what it would otherwise have to do itself."""

from __future__ import annotations

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

_HOOKS = ("before_", "after_", "on_")


def is_hook(function: Function) -> bool:
    """Whether a framework calls this method in every process, as it does `on_train_epoch_end` of its callbacks and modules."""
    method = "." in function.id.rpartition("::")[2]
    return function.entry and method and function.place.function.rpartition(".")[2].startswith(_HOOKS)
