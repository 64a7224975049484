"""Names that hold the rank, the world size, or another value that is not the same in every process."""

from __future__ import annotations

from ddpdoctor.evidence.code_values import Kind
from ddpdoctor.source.names.torch_names import DIST

ENVIRONMENT = {
    "RANK": Kind.GLOBAL_RANK,
    "SLURM_PROCID": Kind.GLOBAL_RANK,
    "OMPI_COMM_WORLD_RANK": Kind.GLOBAL_RANK,
    "PMI_RANK": Kind.GLOBAL_RANK,
    "LOCAL_RANK": Kind.LOCAL_RANK,
    "SLURM_LOCALID": Kind.LOCAL_RANK,
    "OMPI_COMM_WORLD_LOCAL_RANK": Kind.LOCAL_RANK,
    "MPI_LOCALRANKID": Kind.LOCAL_RANK,
    "MV2_COMM_WORLD_RANK": Kind.GLOBAL_RANK,
    "MV2_COMM_WORLD_LOCAL_RANK": Kind.LOCAL_RANK,
    "GROUP_RANK": Kind.RANK,
    "NODE_RANK": Kind.RANK,
    "SLURM_NODEID": Kind.RANK,
    "WORLD_SIZE": Kind.WORLD_SIZE,
    "SLURM_NTASKS": Kind.WORLD_SIZE,
    "LOCAL_WORLD_SIZE": Kind.DEVICE_COUNT,
}
"""What the launchers' variables hold."""
OF_JOB_ENVIRONMENT = {
    "global_rank": Kind.GLOBAL_RANK,
    "local_rank": Kind.LOCAL_RANK,
    "node": Kind.RANK,
    "num_tasks": Kind.WORLD_SIZE,
}
"""What submitit tells a task of itself."""
CALLED = {
    f"{DIST}get_rank": Kind.GLOBAL_RANK,
    f"{DIST}get_node_local_rank": Kind.LOCAL_RANK,
    f"{DIST}get_group_rank": Kind.RANK,
    f"{DIST}get_world_size": Kind.WORLD_SIZE,
    "torch.cuda.device_count": Kind.DEVICE_COUNT,
    "torch.accelerator.device_count": Kind.DEVICE_COUNT,
    "time.time": Kind.LOCAL,
    "time.monotonic": Kind.LOCAL,
    "time.perf_counter": Kind.LOCAL,
    "datetime.datetime.now": Kind.LOCAL,
    "datetime.now": Kind.LOCAL,
    **dict.fromkeys(
        (
            "datetime.datetime.utcnow",
            "datetime.datetime.today",
            "time.time_ns",
            "time.ctime",
            "time.localtime",
            "time.asctime",
        ),
        Kind.LOCAL,
    ),
    "time.strftime": Kind.LOCAL,
    "os.getpid": Kind.LOCAL,
    "tempfile.mkdtemp": Kind.LOCAL,
    "uuid.uuid4": Kind.LOCAL,
    "uuid.uuid1": Kind.LOCAL,
    "secrets.token_hex": Kind.LOCAL,
    "mpi4py.MPI.COMM_WORLD.Get_rank": Kind.GLOBAL_RANK,
    "os.listdir": Kind.UNORDERED,
    "glob.glob": Kind.UNORDERED,
    "glob.iglob": Kind.UNORDERED,
    "os.scandir": Kind.UNORDERED,
    "os.walk": Kind.UNORDERED,
}
"""What calls of full names give."""
OWN = {
    "time.time": "clock",
    "time.monotonic": "clock",
    "time.perf_counter": "clock",
    ".qsize": "queue",
}
"""What calls read that is certainly different in each process: the words that a finding uses for it."""
DRAWS = frozenset({"random.random", "random.randint", "random.uniform", "random.choice", "random.randrange", "numpy.random.rand",
                   "numpy.random.random", "numpy.random.uniform", "numpy.random.randint"})  # fmt: skip
"""Calls that draw one number from the generator of the process."""
RANK_NAMES = {
    "local_rank": Kind.LOCAL_RANK,
    "local_process_index": Kind.LOCAL_RANK,
    "rank": Kind.RANK,
    "global_rank": Kind.RANK,
    "world_rank": Kind.RANK,
    "process_index": Kind.RANK,
    "is_main_process": Kind.RANK,
    "is_local_main_process": Kind.RANK,
    "is_world_process_zero": Kind.RANK,
    "is_local_process_zero": Kind.RANK,
    "is_last_process": Kind.RANK,
    "is_global_zero": Kind.RANK,
    "is_main": Kind.RANK,
    "is_master": Kind.RANK,
    "is_master_process": Kind.RANK,
    "master_process": Kind.RANK,
    "main_process": Kind.RANK,
    "is_rank_zero": Kind.RANK,
    "is_rank0": Kind.RANK,
    "rank_zero": Kind.RANK,
    "is_primary": Kind.RANK,
}
"""Names of attributes, parameters and functions that hold the rank or a test of it, where their value is not at hand."""
RANK_CALLS = {
    "get_rank": Kind.RANK,
    "get_global_rank": Kind.RANK,
    "get_local_rank": Kind.LOCAL_RANK,
    "get_node_local_rank": Kind.LOCAL_RANK,
    "local_rank": Kind.LOCAL_RANK,
    **{name: Kind.RANK for name in RANK_NAMES if name.startswith(("is_", "main_", "master_"))},
}
"""Names of functions and methods that return it, where they are not at hand."""
RANK_AND_SIZE = {"get_dist_info": (Kind.GLOBAL_RANK, Kind.WORLD_SIZE)}
"""Names of functions of frameworks, and of programs that took them over, that return the global rank and the world size."""
METHODS_OF_TRAINERS = frozenset({"is_world_process_zero", "is_local_process_zero"})
"""Tests of the rank that are methods of the Trainer of transformers, and plain values of its state."""
OF_WRITERS = frozenset({"should_save", "should_log"})
"""What transformers' arguments ask of the rank: `args.should_save` is true on that which writes."""
RANK_DECORATORS = ("rank_zero_only", "main_process_only", "on_main_process", "on_local_main_process", "on_last_process",
                   "on_process", "on_local_process", "master_only", "rank_zero_first", "main_process", "only_on_rank_zero",
                   "one_rank_only", "main_rank_only", "rank0_only")  # fmt: skip
"""Decorators that run a function on one rank."""
WORLD_SIZES = frozenset({("accelerator", "num_processes"), ("fabric", "world_size"), ("trainer", "world_size")})
"""The attributes of frameworks' objects, under their usual names, that hold the number of ranks."""
STATE_WORDS = ("is_initialized", "is_available", "world_size", "distributed", "is_dist", "use_ddp", "use_dist", "multi_gpu",
               "n_gpu", "num_gpu", "nprocs", "num_processes", "num_devices", "ddp", "get_world_size", "dist_avail", "is_ddp",
               "parallel", "multigpu", "is_torchelastic_launched", "fsdp", "no_cuda", "use_cuda")  # fmt: skip
"""Parts of names that ask whether there are several ranks, which all of them answer alike."""
