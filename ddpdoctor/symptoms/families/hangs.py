"""Symptoms of a job that hangs."""

from __future__ import annotations

from ddpdoctor.symptoms.symptom import Symptom

SYMPTOMS = (
    Symptom(
        "hangs in the first step",
        ("DDP314", "DDP305", "DDP307", "DDP166", "DDP215", "DDP220"),
        (
            "stuck at the first iteration",
            "hangs at the first backward",
            "hangs at the first all_reduce",
            "hangs when the model is wrapped in DistributedDataParallel",
            "training does not start and nothing is printed",
        ),
    ),
    Symptom(
        "hangs in init_process_group",
        ("DDP205", "DDP204", "DDP203", "DDP222", "DDP227", "DDP207", "DDP231"),
        ("stuck at the rendezvous", "waits for other nodes", "hangs at startup", "not all clients joined"),
    ),
    Symptom(
        "hangs at the end of an epoch",
        ("DDP306", "DDP305", "DDP735", "DDP308"),
        ("stuck at the last batch", "hangs after the first epoch", "uneven number of batches per rank"),
    ),
    Symptom(
        "hangs in validation or while a checkpoint is saved",
        ("DDP305", "DDP730", "DDP307", "DDP317"),
        (
            "hangs during evaluation",
            "stuck in eval on rank 0",
            "hangs when saving the model",
            "barrier inside if rank == 0",
            "hangs when logging on rank 0",
        ),
    ),
    Symptom(
        "hangs at random after hours",
        ("DDP307", "DDP308", "DDP319", "DDP314", "DDP317", "DDP311"),
        ("freezes in the middle of training", "training stops making progress", "sometimes deadlocks", "job hangs"),
    ),
    Symptom(
        "GPUs at 100 % and no progress",
        ("DDP305", "DDP301", "DDP314", "DDP319", "DDP307"),
        ("gpu utilization 100 but training is frozen", "nvidia-smi shows 100 and nothing happens"),
    ),
    Symptom(
        "one GPU at 0 % while the others are at 100 %",
        ("DDP307", "DDP308", "DDP305", "DDP317"),
        ("one rank idle while the others wait", "one rank is stuck in its own code"),
    ),
    Symptom(
        "hangs in the DataLoader",
        ("DDP308", "DDP317", "DDP409", "DDP311"),
        ("stuck in next(iter(loader))", "dataloader with num_workers deadlocks", "dataloader worker hangs"),
    ),
    Symptom(
        "waits at a breakpoint or for input",
        ("DDP309",),
        ("hangs with pdb", "set_trace", "(Pdb)", "BdbQuit", "input() in a rank"),
    ),
    Symptom(
        "hangs in new_group or init_device_mesh",
        ("DDP315", "DDP734", "DDP312"),
        ("stuck creating a process group", "device mesh hangs"),
    ),
    Symptom(
        "hangs in send or recv",
        ("DDP313", "DDP312"),
        ("pipeline parallel deadlock", "stuck in recv", "p2p hangs", "irecv never returns", "isend waits"),
    ),
    Symptom(
        "ranks wait for each other in different process groups",
        ("DDP312", "DDP737", "DDP313"),
        ("deadlock with tensor parallel and data parallel groups", "two process groups deadlock"),
    ),
    Symptom(
        "a rank is in state D",
        ("DDP317",),
        ("uninterruptible sleep", "cannot kill the process", "nfs hangs", "kill -9 does not work", "lustre stuck"),
    ),
    Symptom("a rank is in state T", ("DDP310",), ("process is stopped", "SIGSTOP", "suspended", "tracing stop")),
    Symptom(
        "a rank holds the GIL", ("DDP311",), ("py-spy shows gil", "watchdog got stuck", "c extension never returns")
    ),
    Symptom(
        "does not exit after the training",
        ("DDP318", "DDP724", "DDP306"),
        (
            "hangs at exit",
            "processes are left running after the job ended",
            "process never terminates after training finished",
            "hangs in destroy_process_group",
            "destroy_process_group() was not called before program exit",
        ),
    ),
    Symptom(
        "works on one node, hangs on two",
        ("DDP166", "DDP215", "DDP212", "DDP168", "DDP169", "DDP209", "DDP220", "DDP165"),
        (
            "multi-node hangs, single node works",
            "works on a single machine but not on several nodes",
            "rendezvous works and then nccl init hangs",
            "firewall between the nodes",
        ),
    ),
    Symptom(
        "works on one GPU, hangs on several",
        ("DDP314", "DDP305", "DDP221"),
        ("hangs with 2 gpus, works with 1", "NCCL_P2P_DISABLE=1 helps", "iommu", "acs", "peer to peer hangs"),
    ),
    Symptom(
        "hangs when a batch is skipped or a loss is nan",
        ("DDP305", "DDP316", "DDP732", "DDP510"),
        ("continue in the training loop on one rank", "early stopping on one rank hangs", "skip bad batch hangs"),
    ),
)
