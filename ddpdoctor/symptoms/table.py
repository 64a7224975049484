"""Symptoms as users type them, each with the codes of the findings that it can mean, the most frequent cause first."""

from __future__ import annotations

from dataclasses import dataclass

from ddpdoctor.analysis.crashes.error_patterns import SecondaryError


@dataclass(frozen=True, slots=True)
class Symptom:
    """What somebody sees who does not know the cause yet."""

    text: str
    """One short sentence; the index page lists it."""
    codes: tuple[str, ...]
    """The findings that it can mean, the first choice first."""
    also: tuple[str, ...] = ()
    """Other ways to type the same."""


_SECONDARY = (
    Symptom(
        SecondaryError.PEER_GONE.value,
        ("DDP401", "DDP403", "DDP402", "DDP306", "DDP407", "DDP426", "DDP212"),
        ("connection closed by peer", "connection reset by peer", "broken pipe", "remote process exited"),
    ),
    Symptom(
        SecondaryError.TIMED_OUT.value,
        ("DDP408", "DDP305", "DDP307", "DDP301", "DDP306", "DDP308", "DDP401", "DDP403", "DDP314"),
        (
            "watchdog caught collective operation timeout",
            "nccl timeout",
            "timed out waiting for recv operation",
            "heartbeat monitor timed out",
            "monitored barrier failed: ranks did not reach it",
            "allreduce timed out after 30 minutes",
        ),
    ),
    Symptom(
        SecondaryError.MISMATCHED.value,
        ("DDP301", "DDP302", "DDP305", "DDP303"),
        ("op.preamble.length <= op.nbytes", "gloo enforce fail received more data than expected"),
    ),
    Symptom(
        SecondaryError.ENDED.value,
        ("DDP403", "DDP419", "DDP401"),
        (
            "SignalException: got signal 15",
            "Received 15 death signal, shutting down workers",
            "Received 2 death signal",
            "Received Signals.SIGTERM death signal, shutting down workers",
            "Process got signal: 15",
            "exit code -15",
            "exit code 143",
            "SIGTERM",
            "terminated",
        ),
    ),
)

_HANGS = (
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

_ENDS = (
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

_LAUNCH = (
    Symptom(
        "the port is in use",
        ("DDP202", "DDP701", "DDP722", "DDP219"),
        ("address already in use", "EADDRINUSE", "two jobs on one node collide", "bind failed"),
    ),
    Symptom(
        "connection refused",
        ("DDP203", "DDP229", "DDP418", "DDP216"),
        ("errno 111", "ECONNREFUSED", "nothing listens on the master port"),
    ),
    Symptom(
        "connection timed out",
        ("DDP204", "DDP215", "DDP212", "DDP229", "DDP418"),
        ("errno 110", "ETIMEDOUT", "cannot connect to the master", "client socket has timed out"),
    ),
    Symptom(
        "no route to host", ("DDP212", "DDP214", "DDP204"), ("errno 113", "EHOSTUNREACH", "network is unreachable")
    ),
    Symptom(
        "the host name cannot be resolved",
        ("DDP201", "DDP209"),
        ("name or service not known", "gaierror", "temporary failure in name resolution", "getaddrinfo failed"),
    ),
    Symptom(
        "every process says rank 0 and world size 1",
        ("DDP218", "DDP223", "DDP704"),
        ("each process trains alone", "world_size is 1 instead of 8", "srun starts independent jobs", "MEMBER: 1/1"),
    ),
    Symptom(
        "ranks see different world sizes",
        ("DDP207", "DDP217", "DDP225"),
        ("wrong world size", "two launchers set RANK", "LOCAL_WORLD_SIZE is wrong"),
    ),
    Symptom("two processes claim one rank", ("DDP206", "DDP728"), ("duplicate rank", "rank has already checked in")),
    Symptom("rank is out of range", ("DDP208",), ("RANK is not below WORLD_SIZE", "local rank too large")),
    Symptom(
        "launcher variables or arguments are missing",
        ("DDP414", "DDP723", "DDP703"),
        (
            "unrecognized arguments: --local-rank",
            "environment variable RANK expected, but not set",
            "the following arguments are required: --local_rank",
        ),
    ),
    Symptom(
        "one torch.distributed call fails before init_process_group",
        ("DDP421", "DDP414"),
        ("default process group has not been initialized", "started with python instead of torchrun"),
    ),
    Symptom(
        "the network interface is wrong",
        ("DDP166", "DDP210", "DDP168", "DDP211"),
        ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "uses docker0 or lo", "no socket interface found"),
    ),
    Symptom(
        "the start takes minutes",
        ("DDP230", "DDP146", "DDP201"),
        ("slow init_process_group", "initialization takes long", "hostname of the client socket cannot be retrieved"),
    ),
    Symptom(
        "InfiniBand is not used or fails",
        ("DDP174", "DDP183", "DDP418"),
        ("nccl falls back to sockets", "NET/IB", "ibv_reg_mr", "rdma fails", "roce", "port is down"),
    ),
)

_GPUS = (
    Symptom(
        "CUDA out of memory",
        ("DDP407", "DDP148", "DDP751", "DDP721"),
        ("gpu oom", "OutOfMemoryError", "tried to allocate GiB", "CUBLAS_STATUS_ALLOC_FAILED"),
    ),
    Symptom(
        "every process uses GPU 0",
        ("DDP721", "DDP738", "DDP751", "DDP415"),
        ("rank 0's gpu has more memory than the others", "all processes on gpu 0", "gpu 0 out of memory only"),
    ),
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
        ("Xid error", "fallen off the bus", "uncorrectable ECC error", "gpu lost"),
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
    Symptom("the backend is missing", ("DDP413", "DDP103"), ("nccl not available", "built without nccl")),
)

_FILES = (
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
        "torch.compile or Triton fails on some ranks",
        ("DDP424", "DDP425"),
        ("torchinductor cache", "triton cache FileNotFoundError", "stale compile cache"),
    ),
    Symptom(
        "runs or outputs appear once per rank",
        ("DDP758", "DDP759", "DDP218"),
        ("wandb creates several runs", "everything is logged 8 times", "several run folders"),
    ),
    Symptom(
        "spawn cannot pickle or import",
        ("DDP417", "DDP725"),
        ("can't pickle local object", "bootstrapping phase", "freeze_support", "mp.spawn fails"),
    ),
)

_RESULTS = (
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

_SLOW = (
    Symptom(
        "training is slow",
        ("DDP602", "DDP601", "DDP603", "DDP606", "DDP191"),
        ("the job is slow", "each step takes long", "slow steps", "low samples per second"),
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

GROUPS = {
    "A job hangs": _HANGS,
    "A rank shows another rank's failure": _SECONDARY,
    "A process ends": _ENDS,
    "The launch, the rendezvous and the network": _LAUNCH,
    "GPUs and hosts": _GPUS,
    "Files and memory": _FILES,
    "Results are wrong": _RESULTS,
    "A job is slow": _SLOW,
}
"""All symptoms, by the headings of the index page."""

SYMPTOMS = tuple(symptom for symptoms in GROUPS.values() for symptom in symptoms)
"""All symptoms, in the order of the index page."""
