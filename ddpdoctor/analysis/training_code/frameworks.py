"""Frameworks that do for a training script what it would otherwise have to do itself."""

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
