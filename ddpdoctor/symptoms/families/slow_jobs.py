"""Symptoms of a job that is slow."""

from __future__ import annotations

from ddpdoctor.symptoms.symptom import Symptom

SYMPTOMS = (
    Symptom(
        "training is slow",
        ("DDP602", "DDP601", "DDP603", "DDP606", "DDP191"),
        ("the job is slow", "each step takes long", "slow steps", "low samples per second"),
    ),
    Symptom(
        "DDP looks for unused parameters and finds none",
        ("DDP604", "DDP404"),
        (
            "did not find any unused parameters in the forward pass",
            "Warning: find_unused_parameters=True was specified in DDP constructor",
        ),
    ),
    Symptom(
        "slower with more GPUs",
        ("DDP608", "DDP606", "DDP602", "DDP601", "DDP603", "DDP213"),
        ("no speedup with ddp", "scaling is bad", "2 gpus are slower than 1", "poor scaling efficiency"),
    ),
    Symptom(
        "one rank is slower than the others",
        ("DDP601", "DDP135", "DDP172", "DDP213"),
        ("straggler", "one node is slow", "others wait for one slow gpu"),
    ),
    Symptom(
        "GPU utilization is low",
        ("DDP602", "DDP603", "DDP705"),
        ("data loading is slow", "gpus are starved", "dataloader bottleneck", "gpu utilization drops to 0 each step"),
    ),
    Symptom("all CPU cores are busy", ("DDP603", "DDP705"), ("cpu load is high", "OMP_NUM_THREADS", "oversubscribed")),
    Symptom(
        "the network is slow",
        ("DDP606", "DDP213", "DDP172", "DDP173", "DDP174"),
        ("all_reduce bandwidth is low", "nccl-tests busbw is low", "multi-node training is slow"),
    ),
    Symptom("slower than before", ("DDP607", "DDP606", "DDP191"), ("slow after an upgrade", "performance regression")),
)
