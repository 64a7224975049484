"""What the functions and methods are for that distributed training code calls: names of torch, and of what stands beside it."""

from __future__ import annotations

from functools import lru_cache

from ddpdoctor.evidence.code_values import Kind

MOST_NAMES = 10_000  # names that are kept with what is known of them: programs call the same functions
DIST = "torch.distributed."

DIST_OF_OTHERS = ("ignite.distributed.", "mmengine.dist.", "deepspeed.comm.")
"""Modules of frameworks whose collectives have torch's names."""

COLLECTIVES = frozenset(
    {
        "all_reduce", "all_reduce_coalesced", "reduce", "broadcast", "all_gather", "all_gather_coalesced",
        "all_gather_into_tensor", "_all_gather_base", "all_gather_object", "gather", "gather_object", "scatter",
        "scatter_object_list", "reduce_scatter", "reduce_scatter_tensor", "_reduce_scatter_base", "all_to_all",
        "all_to_all_single", "broadcast_object_list", "barrier", "monitored_barrier",
    }
)  # fmt: skip
FILLS_ITS_FIRST = frozenset(
    {"all_gather", "all_gather_into_tensor", "_all_gather_base", "all_gather_object", "all_to_all", "all_to_all_single"}
)
"""Collectives that leave what they are given behind their first argument as it is."""

OF_MPI = frozenset(
    {
        f"mpi4py.MPI.COMM_WORLD.{name}"
        for each in ("bcast", "scatter", "gather", "allgather", "alltoall", "reduce", "allreduce", "barrier")
        for name in (each, each.capitalize())
    }
)
"""Collectives of mpi4py, with which programs share values beside torch's."""

FUNCTIONS = {
    **dict.fromkeys(OF_MPI, "collective"),
    f"{DIST}init_process_group": "init",
    f"{DIST}destroy_process_group": "destroy",
    f"{DIST}new_group": "new-group",
    f"{DIST}new_subgroups": "collective",
    f"{DIST}nn.all_reduce": "collective",
    f"{DIST}nn.all_gather": "collective",
    f"{DIST}nn.functional.all_reduce": "collective",
    f"{DIST}nn.functional.all_gather": "collective",
    f"{DIST}checkpoint.save": "collective-save",
    f"{DIST}checkpoint.save_state_dict": "collective-save",
    f"{DIST}checkpoint.async_save": "collective-save",
    f"{DIST}checkpoint.load": "collective-save",
    **{
        f"{DIST}checkpoint.state_dict.get_{name}": "gather-state"
        for name in ("state_dict", "model_state_dict", "optimizer_state_dict")
    },
    f"{DIST}fsdp.fully_shard": "wrap-fsdp",
    f"{DIST}_composable.fsdp.fully_shard": "wrap-fsdp",
    "torch.save": "save",
    "os.replace": "move",
    "os.rename": "move",
    "shutil.move": "move",
    "torch.load": "load",
    "torch.manual_seed": "seed",
    "torch.random.manual_seed": "seed",
    "torch.seed": "seed",
    "torch.random.seed": "seed",
    "torch.set_rng_state": "seed",
    "torch.random.set_rng_state": "seed",
    "torch.cuda.manual_seed": "seed",
    "torch.cuda.manual_seed_all": "seed",
    "random.seed": "seed",
    "numpy.random.seed": "seed",
    "torch.cuda.set_device": "set-device",
    "torch.npu.set_device": "set-device",
    "torch.xpu.set_device": "set-device",
    "torch.accelerator.set_device_index": "set-device",
    "torch.device": "device",
    "torch.cuda.device": "device",
    "torch.cuda.synchronize": "synchronize",
    "torch.multiprocessing.spawn": "spawn",
    "torch.multiprocessing.start_processes": "spawn",
    "torch.multiprocessing.Process": "process",
    "multiprocessing.Process": "process",
    "torch.multiprocessing.set_start_method": "start-method",
    "multiprocessing.set_start_method": "start-method",
    "torch.multiprocessing.get_context": "start-context",
    "multiprocessing.get_context": "start-context",
    "torch.nn.utils.clip_grad_norm_": "clip",
    "torch.nn.utils.clip_grad_value_": "clip",
    "torch.nn.utils.clip_grad_norm": "clip",
    "torch.nn.DataParallel": "wrap-dp",
    "torch.nn.parallel.DataParallel": "wrap-dp",
    "torch.utils.data.random_split": "split",
    "torch.utils.data.dataset.random_split": "split",
    "sklearn.model_selection.train_test_split": "split",
    "random.shuffle": "split",
    "random.sample": "split",
    "numpy.random.permutation": "split",
    "numpy.random.shuffle": "split",
    "torch.randperm": "split",
    "numpy.random.choice": "split",
    **{f"sklearn.model_selection.{name}": "split"
       for name in ("KFold", "StratifiedKFold", "ShuffleSplit", "StratifiedShuffleSplit", "GroupShuffleSplit")},
    "torch.utils.data.RandomSampler": "plain-sampler",
    "torch.utils.data.SequentialSampler": "plain-sampler",
    "torch.utils.data.WeightedRandomSampler": "plain-sampler",
    "torch.utils.data.Subset": "subset",
    "torch.utils.data.dataset.Subset": "subset",
    "torch.utils.data.TensorDataset": "dataset",
    "torch.utils.data.dataset.TensorDataset": "dataset",
    "deepspeed.initialize": "deepspeed",
    "datasets.load_dataset": "prepare-data",
    "huggingface_hub.snapshot_download": "download",
    "huggingface_hub.hf_hub_download": "download",
    "urllib.request.urlretrieve": "download",
    "wget.download": "download",
    "gdown.download": "download",
    "torchvision.datasets.utils.download_url": "download",
    "torchvision.datasets.utils.download_and_extract_archive": "download",
    "torch.hub.download_url_to_file": "download",
    "torch.hub.load": "download",
    f"{DIST}get_rank": "ask",
    f"{DIST}get_world_size": "ask",
    "print": "print",
    "tqdm": "progress",
    "tqdm.tqdm": "progress",
    "tqdm.auto.tqdm": "progress",
    "tqdm.notebook.tqdm": "progress",
    "tqdm.trange": "progress",
    "tqdm.auto.trange": "progress",
    "tqdm.tqdm.write": "print",
    "tqdm.auto.tqdm.write": "print",
    "rich.print": "print",
    "wandb.log": "log",
    "mlflow.log_metric": "log",
    "mlflow.log_metrics": "log",
    **dict.fromkeys(
        ("numpy.save", "numpy.savez", "numpy.savez_compressed", "pickle.dump", "joblib.dump", "json.dump"), "write"
    ),
    **dict.fromkeys(("numpy.random.default_rng", "numpy.random.RandomState", "random.Random"), "generator"),
    **dict.fromkeys(
        ("transformers.TrainingArguments", "transformers.Seq2SeqTrainingArguments", "trl.SFTConfig", "trl.DPOConfig",
         "torch.utils.tensorboard.SummaryWriter", "tensorboardX.SummaryWriter"),
        "make-folder",
    ),
    "os.makedirs": "make-folder",
    "os.mkdir": "make-folder",
    "shutil.unpack_archive": "download",
    "shutil.copytree": "download",
    "submitit.JobEnvironment": "job-environment",
    "ignite.distributed.auto_model": "wrap-ddp",
    "ignite.engine.Engine": "engine",
    "ignite.engine.engine.Engine": "engine",
    "ignite.engine.create_supervised_trainer": "engine",
    "torch.nn.SyncBatchNorm.convert_sync_batchnorm": "sync-batch-norm",
    "torch.distributed.algorithms.join.Join": "join",
    **{f"transformers.{name}": "hf-trainer"
       for name in ("Trainer", "Seq2SeqTrainer", "trainer.Trainer", "trainer_seq2seq.Seq2SeqTrainer")},
    **{f"trl.{name}Trainer": "hf-trainer" for name in ("SFT", "DPO", "GRPO", "Reward", "KTO", "ORPO", "CPO", "RLOO")},
    **{f"{package}.Trainer": "lightning-trainer" for package in ("lightning", "lightning.pytorch", "pytorch_lightning")},
}  # fmt: skip
"""What a call of a full name is for."""

COMMANDS = frozenset(
    {
        "os.system",
        *(f"subprocess.{name}" for name in ("run", "call", "check_call", "check_output", "Popen")),
        *(f"asyncio.create_subprocess_{name}" for name in ("exec", "shell")),
    }
)
"""Calls that start a command of the shell."""
FETCHERS = frozenset({"wget", "aria2c", "gdown", "kaggle", "unzip", "tar"})
"""Commands that download or unpack files."""
OF_GENERATORS = frozenset({"permutation", "shuffle", "choice", "sample"})
"""Methods by which a generator of numpy, or of Python, draws a part of the data or an order."""

ENDS = {
    "DistributedDataParallel": "wrap-ddp",
    "FullyShardedDataParallel": "wrap-fsdp",
    "FSDP": "wrap-fsdp",
    "DistributedSampler": "sampler",
    "DistributedSamplerWrapper": "sampler",
    "DataLoader": "loader",
    "Accelerator": "accelerator",
    "Fabric": "fabric",
    "ReduceLROnPlateau": "plateau",
    "GradScaler": "scaler",
    "ZeroRedundancyOptimizer": "zero",
    "Trainer": "trainer",
    "create_supervised_evaluator": "evaluator",
    **dict.fromkeys(
        ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "LBFGS", "NAdam", "RAdam", "Adamax", "Adadelta"), "optimizer"
    ),
    "BatchNorm1d": "batch-norm",
    "BatchNorm2d": "batch-norm",
    "BatchNorm3d": "batch-norm",
}
"""What a call is for whose full name ends so, wherever it is imported from."""

METHODS = {
    "backward": "backward",
    "manual_backward": "backward",
    "step": "step",
    "set_epoch": "set-epoch",
    "no_sync": "no-sync",
    "unscale_": "unscale",
    "scale": "scale",
    "state_dict": "state-dict",
    "load_state_dict": "load-state",
    "consolidate_state_dict": "collective",
    "to": "to",
    "cuda": "cuda",
    "save_pretrained": "save",
    "add_scalar": "log",
    "add_scalars": "log",
    "log_metrics": "log",
    "log": "log",
    "log_metric": "log",
    "info": "log",
    "wait_for_everyone": "collective",
    "gather_for_metrics": "collective",
    "clip_grad_norm_": "clip",
    "unscale_gradients": "unscale",
    "eval": "eval",
    "train": "train",
    "join": "join-process",
    "prepare": "prepare",
    "setup": "prepare",
    "setup_module": "prepare",
    "setup_dataloaders": "prepare",
    "unwrap_model": "unwrap",
    "mkdir": "make-folder",
    "sample": "split",
    "train_test_split": "split",
    "extractall": "download",
    "iter_content": "download",
    "save_to_disk": "download",
    "compute": "compute-metric",
    "register_buffer": "buffer",
    "item": "read",
    **dict.fromkeys(
        ("write", "writerow", "write_text", "write_bytes", "to_parquet", "to_pickle", "to_csv", "tofile"), "write"
    ),
}
"""What a call of a method is for where its object is not a module."""

OF_ACCELERATE = frozenset(
    {"gather", "gather_for_metrics", "reduce", "wait_for_everyone", "pad_across_processes", "save_state"}
)
OF_DEEPSPEED = frozenset({"save_checkpoint", "load_checkpoint", "save_16bit_model"})
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
OF_FABRIC = frozenset({"barrier", "all_reduce", "all_gather", "broadcast", "save"})

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

OF_JOB_ENVIRONMENT = {
    "global_rank": Kind.GLOBAL_RANK,
    "local_rank": Kind.LOCAL_RANK,
    "node": Kind.RANK,
    "num_tasks": Kind.WORLD_SIZE,
}
"""What submitit tells a task of itself."""

METHODS_OF_TRAINERS = frozenset({"is_world_process_zero", "is_local_process_zero"})
"""Tests of the rank that are methods of the Trainer of transformers, and plain values of its state."""

OF_WRITERS = frozenset({"should_save", "should_log"})
"""What transformers' arguments ask of the rank: `args.should_save` is true on that which writes."""

TRAINERS = frozenset({"trainer", "runner", "engine", "learner", "solver", "loop", "session", "job", "experiment", "worker",
                      "task", "ctx", "context"})  # fmt: skip
"""Names of the parameter by which a callback gets the object that trains."""

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
    "mmengine": ("runner", "Runner", "dist", "hook", "Hook"),
    "ignite": ("distributed", "engine", "contrib"),
}
"""Of frameworks that are libraries of models and tools as well, the parts that do the work: others are passed over."""

HANDS_ON = {
    "add_event_handler": 1,
    "Engine": 0,
    "submit": 0,
    "apply_async": 0,
    "call_soon": 0,
    "run_in_executor": 1,
    "Thread": None,
    "Timer": 1,
}
"""Calls that have a function run later, by the position at which they get it; None where only a keyword names it."""

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

BACKBONES = "torchvision.models."
"""The package whose functions make models."""
DOWNLOADING = ("torch_geometric.datasets.",)
"""Packages whose classes are data sets that download and preprocess when they are made, where their folder is empty."""
DOWNLOADING_DATASETS = ("ogb.nodeproppred.", "ogb.graphproppred.", "ogb.linkproppred.", "dgl.data.")
"""Packages in which those classes do so that are called data sets."""
DOWNLOADS_NOT = ("Fake", "Random", "As", "DGL", "CSV", "BAShape", "BACommunity", "Tree", "MiniGC", "Explainer", "Infection",
                 "StochasticBlockModel")  # fmt: skip
"""How the names of their data sets begin that are generated, made of other ones, or read from given files."""

WASHES = ("all_reduce", "reduce_", "_reduce", "reduced", "all_gather", "gather", "broadcast", "synchronize", "sync_", "_sync",
          "allreduce", "aggregate", "average_across", "across", "global_mean", "dist_mean", "dist_avg", "collect", "allgather",
          "mean_reduce", "psum", "compute")  # fmt: skip
"""Parts of names of functions that make a value equal on all ranks, where they are not at hand."""

WASHES_NOT = (
    "clip",
    "zero",
    "index",
    "scatter",
    "no_sync",
    "backward_sync",
    "batchnorm",
    "batch_norm",
    "async",
    "barrier",
    "uncollected",
)
"""Parts of names that look like those and are something else."""


@lru_cache(MOST_NAMES)
def washes(last: str) -> bool:
    """Whether the last part of a name says that the function makes a value equal on all ranks."""
    lower = last.lower()
    return any(word in lower for word in WASHES) and not any(word in lower for word in WASHES_NOT)
