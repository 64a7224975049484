"""Symptoms of wrong results."""

from __future__ import annotations

from ddpdoctor.symptoms.symptom import Symptom

SYMPTOMS = (
    Symptom(
        "loss differs between ranks",
        ("DDP503", "DDP502", "DDP504", "DDP508", "DDP515"),
        ("ranks print different losses", "each rank has another loss", "train loss is not the same on all gpus"),
    ),
    Symptom(
        "weights differ between ranks",
        ("DDP503", "DDP502", "DDP504", "DDP509", "DDP505", "DDP518", "DDP507"),
        ("model parameters diverge between gpus", "replicas diverge", "parameters out of sync", "models not in sync"),
    ),
    Symptom(
        "an average of weights or a teacher differs between ranks",
        ("DDP528",),
        (
            "ema differs between ranks",
            "ema only updated on rank 0",
            "teacher model out of sync",
            "target network differs",
        ),
    ),
    Symptom(
        "weights differ from the start",
        ("DDP502", "DDP501", "DDP743"),
        ("initial weights are not the same", "different seed for the model on each rank"),
    ),
    Symptom(
        "gradients differ between ranks",
        ("DDP504", "DDP505", "DDP740", "DDP741"),
        (
            "gradients are not averaged",
            "grad norm differs between ranks",
            "gradients not synchronized",
            "no all_reduce",
        ),
    ),
    Symptom(
        "the loss does not go down under DDP",
        ("DDP504", "DDP521", "DDP505", "DDP746"),
        ("model does not learn with several gpus", "does not converge with ddp", "training with ddp is worse"),
    ),
    Symptom(
        "accuracy is worse with more GPUs",
        ("DDP513", "DDP511", "DDP521", "DDP514", "DDP512", "DDP516"),
        ("lower accuracy than on a single gpu", "results differ between 1 gpu and 4 gpus", "ddp accuracy drop"),
    ),
    Symptom(
        "every rank trains on the same data",
        ("DDP511", "DDP710", "DDP512"),
        ("same batches on all gpus", "forgot the distributed sampler", "an epoch is not shorter with more gpus"),
    ),
    Symptom("samples are seen twice or never", ("DDP512", "DDP714", "DDP719"), ("dataset shards overlap", "data lost")),
    Symptom(
        "the order is the same in every epoch",
        ("DDP513", "DDP711", "DDP712"),
        ("set_epoch", "no shuffling", "the shuffle is the same every epoch", "sampler without set_epoch"),
    ),
    Symptom("augmentations are the same on all ranks", ("DDP516",), ("same random numbers on every rank", "same seed")),
    Symptom(
        "loss is nan on one rank",
        ("DDP517", "DDP745", "DDP510"),
        ("inf gradients on some gpus", "nan loss with ddp", "grad scaler skips steps on one rank"),
    ),
    Symptom(
        "metrics differ between ranks",
        ("DDP515", "DDP753", "DDP508"),
        ("validation accuracy differs on each gpu", "metric is only of rank 0's data"),
    ),
    Symptom(
        "DDP complains of unused parameters",
        ("DDP404",),
        ("find_unused_parameters", "expected to have finished reduction", "parameters did not receive a gradient"),
    ),
    Symptom(
        "one rank trains in evaluation mode",
        ("DDP529",),
        ("model.eval() on rank 0 only", "forgot model.train() after evaluation", "dropout is off on one rank"),
    ),
    Symptom("BatchNorm statistics differ", ("DDP508",), ("running_mean differs between ranks", "buffers out of sync")),
    Symptom("learning rates differ between ranks", ("DDP506", "DDP747"), ("lr scheduler differs", "ReduceLROnPlateau")),
    Symptom(
        "gradients have the wrong scale",
        ("DDP521", "DDP746", "DDP745"),
        ("gradients too small", "loss divided by the world size"),
    ),
    Symptom(
        "results differ after resuming",
        ("DDP519", "DDP507", "DDP743"),
        ("loss jumps after loading a checkpoint", "optimizer state differs", "checkpoints of ranks differ"),
    ),
    Symptom(
        "a collective returns wrong values",
        ("DDP221", "DDP526", "DDP520"),
        ("all_reduce gives a wrong sum", "garbage values"),
    ),
    Symptom(
        "a GPU may compute wrong numbers",
        ("DDP525", "DDP527", "DDP526"),
        (
            "silent data corruption",
            "sdc",
            "bit flip",
            "flipped bits in weights",
            "faulty gpu gives wrong results without an error",
        ),
    ),
)
