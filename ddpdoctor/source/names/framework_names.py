"""Names of the frameworks that do a part of distributed training by themselves: what they call, and what all ranks must call."""

from __future__ import annotations

FRAMEWORKS = {
    "lightning": "lightning", "pytorch_lightning": "lightning", "lightning_fabric": "fabric", "accelerate": "accelerate",
    "deepspeed": "deepspeed", "ignite": "ignite", "mmengine": "mmengine", "mmcv": "mmengine", "transformers": "transformers",
    "hydra": "hydra", "composer": "composer", "ray": "ray", "horovod": "horovod", "torch_xla": "xla", "colossalai": "colossalai",
    "megatron": "megatron", "fairscale": "fairscale", "webdataset": "webdataset", "torchdata": "torchdata",
    "catalyst": "catalyst",
    "fastai": "fastai", "detectron2": "detectron2", "apex": "apex", "byteps": "byteps", "smdistributed": "sagemaker",
    "speechbrain": "speechbrain", "fairseq": "fairseq", "torchtitan": "torchtitan", "nemo": "nemo", "submitit": "submitit",
    "bagua": "bagua", "oslo": "oslo", "paddle": "paddle", "jax": "jax", "tensorflow": "tensorflow", "torchtune": "torchtune",
}  # fmt: skip
"""Packages that do a part of the work by themselves, by the name that is imported."""
FRAMEWORK_PARTS = {
    "transformers": ("Train", "trainer"),
    "accelerate": ("Accelerator", "PartialState", "accelerate"),
    "mmengine": ("runner", "Runner", "init_dist", "hook", "Hook"),
    "ignite": ("distributed", "engine", "contrib"),
}
"""Of frameworks that are libraries of models and tools as well, the parts that do the work: others are passed over."""
OF_ACCELERATE = frozenset(
    {"gather", "gather_for_metrics", "reduce", "wait_for_everyone", "pad_across_processes", "save_state"}
)
OF_DEEPSPEED = frozenset({"save_checkpoint", "load_checkpoint", "save_16bit_model"})
OF_FABRIC = frozenset({"barrier", "all_reduce", "all_gather", "broadcast", "save"})
OF_LIGHTNING = frozenset({"all_gather", "strategy.barrier", "trainer.strategy.barrier", "trainer.save_checkpoint"})
"""What a LightningModule calls on itself that all ranks must call."""
OF_LIGHTNING_HOOKS = frozenset({"trainer.save_checkpoint", "trainer.strategy.barrier", "pl_module.all_gather"})
"""What a hook of a callback calls on the trainer and the module that it is given, which all ranks must call."""
OF_LIGHTNING_TRAINER = frozenset({"save_checkpoint"})
LIGHTNING = ("lightning.", "pytorch_lightning.")
"""How the full names of Lightning begin."""
WATCHES_A_METRIC = frozenset({"ModelCheckpoint", "EarlyStopping"})
"""Callbacks of Lightning that choose or stop by a metric of a given name."""
RUNS_OF_TRAINERS = {
    "hf-trainer": frozenset({"train", "evaluate", "predict"}),
    "lightning-trainer": frozenset({"fit", "validate", "test", "predict"}),
}
"""Methods of the Trainers of transformers and Lightning that train or evaluate on all ranks together."""
STEPS_OF_TRAINERS = frozenset({"compute_loss", "training_step"})
"""Methods to which the Trainer of transformers gives the wrapped model in training."""
TRAINERS = frozenset({"trainer", "runner", "engine", "learner", "solver", "loop", "session", "job", "experiment", "worker",
                      "task", "ctx", "context"})  # fmt: skip
"""Names of the parameter by which a callback gets the object that trains."""
HOOK_CLASSES = ("Hook", "TrainerCallback", "Callback")
"""Classes of MMEngine, transformers and Lightning whose methods a framework calls in every process."""
HOOK_PACKAGES = frozenset({"mmengine", "mmcv", "transformers", "lightning", "pytorch_lightning"})
"""The packages that these classes are of."""
HOOK_METHODS = ("before_", "after_", "on_")
"""How the names of these methods begin."""
HOOKS_OF_LIGHTNING = frozenset(
    f"on_{stage}_{when}"
    for stage in ("fit", "train", "train_epoch", "train_batch", "validation", "validation_epoch", "validation_batch", "test",
                  "test_epoch", "test_batch")
    for when in ("start", "end")
) | {"on_save_checkpoint", "on_before_zero_grad", "on_before_optimizer_step", "on_after_backward"}  # fmt: skip
"""Methods of a LightningModule and of callbacks that Lightning calls in every process."""
HOOKS_OF_TRANSFORMERS = frozenset(
    {"on_init_end", "on_train_begin", "on_train_end", "on_epoch_begin", "on_epoch_end", "on_step_begin", "on_step_end",
     "on_optimizer_step", "on_pre_optimizer_step", "on_substep_end", "on_evaluate", "on_predict", "on_save", "on_log"}
)  # fmt: skip
"""Methods of a TrainerCallback that the Trainer of transformers calls in every process."""
