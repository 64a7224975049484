"""Symptoms of files and memory."""

from __future__ import annotations

from ddpdoctor.symptoms.symptom import Symptom

SYMPTOMS = (
    Symptom(
        "shared memory is full",
        ("DDP409", "DDP181", "DDP182"),
        (
            "dev shm",
            "shm is too small",
            "bus error in docker",
            "shm-size",
            "insufficient shared memory",
            "unable to open shared memory",
            "could not unlink the shared memory file",
        ),
    ),
    Symptom("too many open files", ("DDP410", "DDP184"), ("errno 24", "EMFILE", "ulimit -n", "ancdata")),
    Symptom("the disk is full", ("DDP420",), ("no space left on device", "errno 28", "quota exceeded", "ENOSPC")),
    Symptom(
        "a file exists or is missing on some ranks only",
        ("DDP422", "DDP716", "DDP424"),
        ("FileExistsError on one rank", "download on every rank fails", "race when creating a directory"),
    ),
    Symptom(
        "a checkpoint is corrupt",
        ("DDP750", "DDP752", "DDP420", "DDP422"),
        ("PytorchStreamReader failed", "several ranks write one file", "invalid magic number in checkpoint"),
    ),
    Symptom(
        "the keys of a checkpoint do not fit the model",
        ("DDP756",),
        (
            "Missing key(s) in state_dict: module.",
            "Unexpected key(s) in state_dict: module.",
            "keys of the state_dict begin with module.",
        ),
    ),
    Symptom(
        "torch.compile or Triton fails on some ranks",
        ("DDP424", "DDP425"),
        ("torchinductor cache", "triton cache FileNotFoundError", "stale compile cache"),
    ),
    Symptom(
        "runs or outputs appear once per rank",
        ("DDP755", "DDP758", "DDP759", "DDP218"),
        (
            "wandb creates several runs",
            "everything is logged 8 times",
            "several run folders",
            "every gpu prints",
            "several tqdm bars",
        ),
    ),
    Symptom(
        "spawn cannot pickle or import",
        ("DDP417", "DDP725"),
        ("can't pickle local object", "bootstrapping phase", "freeze_support", "mp.spawn fails"),
    ),
)
