"""What the functions and methods are for that distributed training code calls: names of torch, and of what stands beside it."""

from __future__ import annotations

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
    "multiprocessing.Pool": "process-pool",
    "multiprocessing.pool.Pool": "process-pool",
    "torch.multiprocessing.Pool": "process-pool",
    "concurrent.futures.ProcessPoolExecutor": "process-pool",
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
    **dict.fromkeys(("evaluate.load", "evaluate.combine", "datasets.load_metric"), "own-metric"),
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
    **dict.fromkeys(("tyro.cli", "simple_parsing.parse", "draccus.parse", "pyrallis.parse"), "parse-options"),
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
    **dict.fromkeys(
        (
            "LambdaLR",
            "MultiplicativeLR",
            "StepLR",
            "MultiStepLR",
            "ConstantLR",
            "LinearLR",
            "ExponentialLR",
            "PolynomialLR",
            "CosineAnnealingLR",
            "CosineAnnealingWarmRestarts",
            "CyclicLR",
            "OneCycleLR",
            "ChainedScheduler",
            "SequentialLR",
        ),
        "schedule",
    ),
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
    "seed": "seed",
    **dict.fromkeys(
        ("write", "writerow", "write_text", "write_bytes", "to_parquet", "to_pickle", "to_csv", "tofile"), "write"
    ),
}
"""What a call of a method is for where its object is not a module."""


WRITES = frozenset(
    {"copy_", "set_", "mul_", "add_", "sub_", "div_", "fill_", "zero_", "clamp_", "clamp_min_", "clamp_max_", "clip_",
     "lerp_", "normal_", "uniform_", "trunc_normal_", "masked_fill_", "addcmul_", "addcdiv_", "renorm_", "sign_", "neg_",
     "bernoulli_", "index_copy_", "index_add_", "index_fill_", "masked_scatter_", "floor_", "round_", "fill_diagonal_"}
)  # fmt: skip
"""Methods that write into a tensor."""
WRITES_ITS_FIRST = "torch.nn.init."
"""The module whose functions write into the tensor that they are given."""
WRITES_ITS_SECOND = frozenset({"torch.nn.utils.vector_to_parameters"})
"""Functions that write into the parameters that they are given at the second place."""

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


BACKBONES = "torchvision.models."
"""The package whose functions make models."""
DOWNLOADING = ("torch_geometric.datasets.",)
"""Packages whose classes are data sets that download and preprocess when they are made, where their folder is empty."""
DOWNLOADING_DATASETS = ("ogb.nodeproppred.", "ogb.graphproppred.", "ogb.linkproppred.", "dgl.data.")
"""Packages in which those classes do so that are called data sets."""
DOWNLOADS_NOT = ("Fake", "Random", "As", "DGL", "CSV", "BAShape", "BACommunity", "Tree", "MiniGC", "Explainer", "Infection",
                 "StochasticBlockModel")  # fmt: skip
"""How the names of their data sets begin that are generated, made of other ones, or read from given files."""
