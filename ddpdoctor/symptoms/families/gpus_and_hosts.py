"""Symptoms of GPUs and hosts."""

from __future__ import annotations

from ddpdoctor.symptoms.symptom import Symptom

SYMPTOMS = (
    Symptom(
        "CUDA out of memory",
        ("DDP407", "DDP148", "DDP751", "DDP721"),
        ("gpu oom", "OutOfMemoryError", "tried to allocate GiB", "CUBLAS_STATUS_ALLOC_FAILED"),
    ),
    Symptom(
        "every process uses GPU 0",
        ("DDP721", "DDP738", "DDP751", "DDP415"),
        (
            "rank 0's gpu has more memory than the others",
            "all processes on gpu 0",
            "gpu 0 out of memory only",
            "using GPU 0 as device used by this process is currently unknown",
        ),
    ),
    Symptom("CUDA is used in a forked process", ("DDP401",), ("Cannot re-initialize CUDA in forked subprocess",)),
    Symptom(
        "two ranks on one GPU",
        ("DDP415", "DDP721"),
        ("duplicate gpu detected", "ranks use the same gpu", "two processes share one gpu"),
    ),
    Symptom(
        "CUDA is not available",
        ("DDP104", "DDP105", "DDP126", "DDP224"),
        ("torch.cuda.is_available() is False", "no gpu found", "torch not compiled with CUDA enabled"),
    ),
    Symptom(
        "GPUs are missing",
        ("DDP125", "DDP126", "DDP224", "DDP144"),
        ("device_count is too small", "invalid device ordinal", "fewer gpus than expected"),
    ),
    Symptom(
        "a GPU failed",
        ("DDP125", "DDP127", "DDP132", "DDP423"),
        ("Xid error", "fallen off the bus", "uncorrectable ECC error", "uncorrectable NVLink error", "gpu lost"),
    ),
    Symptom(
        "a CUDA kernel failed",
        ("DDP423", "DDP425"),
        ("device-side assert triggered", "illegal memory access", "CUDA error: unspecified launch failure"),
    ),
    Symptom("a GPU is slow or hot", ("DDP135", "DDP601"), ("thermal throttling", "clocks are low", "power cap")),
    Symptom(
        "works on one host and fails on another",
        ("DDP102", "DDP107", "DDP118", "DDP101", "DDP113"),
        ("different versions on the nodes", "version mismatch between nodes", "nccl versions differ"),
    ),
    Symptom(
        "the backend is missing",
        ("DDP413", "DDP103"),
        ("nccl not available", "built without nccl", "isn't implemented on backend"),
    ),
)
