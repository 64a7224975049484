"""Symptoms of a process that ends."""

from __future__ import annotations

from ddpdoctor.symptoms.symptom import Symptom

SYMPTOMS = (
    Symptom(
        "exit code -9",
        ("DDP402", "DDP403"),
        ("exitcode: -9", "exit code 137", "SIGKILL", "killed", "signal 9", "return code = -9", "oom killer"),
    ),
    Symptom(
        "exit code -11",
        ("DDP403",),
        ("exit code 139", "segmentation fault", "SIGSEGV", "segfault", "signal 11", "core dumped"),
    ),
    Symptom("exit code -6", ("DDP403", "DDP408", "DDP411"), ("exit code 134", "SIGABRT", "aborted", "signal 6")),
    Symptom("exit code -7", ("DDP403", "DDP409", "DDP181"), ("exit code 135", "SIGBUS", "signal 7")),
    Symptom("exit code -4", ("DDP403",), ("SIGILL", "illegal instruction of the CPU", "signal 4")),
    Symptom(
        "a rank called MPI_Abort",
        ("DDP401", "DDP403"),
        ("MPI_ABORT", "MPI_Abort", "MPI_ABORT was invoked on rank in communicator MPI_COMM_WORLD with errorcode"),
    ),
    Symptom(
        "an agent of torchrun waits for the agents of other nodes",
        ("DDP226", "DDP401", "DDP306", "DDP318"),
        (
            "exit barrier",
            "Done waiting for other agents. Elapsed: seconds",
            "Local worker group finished. Waiting seconds for other agents to finish",
        ),
    ),
    Symptom("exit code 1", ("DDP401",), ("ended with exitcode 1 and no message", "returned non-zero exit status 1")),
    Symptom(
        "torchrun says ChildFailedError",
        ("DDP401", "DDP403", "DDP402", "DDP407"),
        (
            "torch.distributed.elastic.multiprocessing.errors.ChildFailedError",
            "error_file: <N/A> traceback: To enable traceback see",
            "Root Cause (first observed failure)",
            "ProcessExitedException",
            "ProcessRaisedException",
        ),
    ),
    Symptom(
        "dies when the terminal is closed",
        ("DDP419",),
        ("killed after ssh disconnect", "SIGHUP", "exit code -1", "nohup does not help", "stops when I log out"),
    ),
    Symptom(
        "the scheduler ended the job",
        ("DDP403",),
        ("slurm time limit", "DUE TO TIME LIMIT", "preempted", "cancelled job", "DUE TO PREEMPTION"),
    ),
    Symptom(
        "memory of the host grows until a rank is killed",
        ("DDP402", "DDP187"),
        ("ram usage increases every epoch", "cpu memory leak in the dataloader", "out of host memory", "OOMKilled"),
    ),
    Symptom(
        "a DataLoader worker was killed",
        ("DDP402", "DDP409", "DDP401"),
        ("DataLoader worker exited unexpectedly", "dataloader worker is killed by signal: Killed"),
    ),
    Symptom(
        "a worker, pod or actor vanished",
        ("DDP426", "DDP402", "DDP403"),
        ("pod disappeared", "node not ready", "ray actor died", "worker lost", "container restarted"),
    ),
    Symptom(
        "the rendezvous closed or the job restarts again and again",
        ("DDP226", "DDP228", "DDP401"),
        ("torchrun restart loop", "RendezvousClosedError", "max_restarts exhausted"),
    ),
)
