"""A place in Python code, and whose code it is."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import takewhile


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One line of a Python stack."""

    file: str
    """As the interpreter knows it."""
    line: int
    """The number of the line, from 1."""
    function: str
    """The name of the function, `<module>` outside of any."""

    def at_line(self, line: int) -> Frame:
        """Another line of the same function."""
        return replace(self, line=line)


_WORKER_LOOP = "_worker_loop"  # of torch.utils.data, in a process that makes batches
_FRAMEWORKS = frozenset((
    "absl", "accelerate", "aim", "aiohttp", "albumentations", "apex", "av", "axolotl", "bitsandbytes", "boto3", "botocore",
    "bs4", "certifi", "charset_normalizer", "clearml", "click", "cloudpickle", "colossalai", "comet_ml", "composer", "cv2",
    "datasets", "debugpy", "deepspeed", "diffusers", "dill", "_distutils_hack", "docker", "dotenv", "einops", "environs",
    "evaluate", "fairscale", "fairseq", "fastai", "fastapi", "fiftyone", "filelock", "fire", "flash_attn", "flwr", "fsspec",
    "gcsfs", "google", "gradio", "grpc", "h5py", "horovod", "httpcore", "httpx", "huggingface_hub", "hydra", "idna", "ignite",
    "imageio", "ipdb", "ipykernel", "IPython", "jinja2", "joblib", "jsonargparse", "keras", "kornia", "lightning",
    "lightning_fabric", "lightning_utilities", "litdata", "llvmlite", "lmdb", "loguru", "matplotlib", "megatron", "mlflow",
    "mmcv", "mmengine", "monai", "more_itertools", "mpi4py", "multiprocess", "nemo", "neptune", "networkx", "nevergrad",
    "nltk", "numba", "numpy", "nvidia", "omegaconf", "onnx", "onnxruntime", "openai", "optimum", "optuna", "orjson",
    "packaging", "pandas", "pathos", "pdbpp", "peft", "petastorm", "PIL", "pip", "pkg_resources", "platformdirs", "pluggy",
    "polars", "prefetch_generator", "psutil", "pudb", "py", "py4j", "pyarrow", "pydantic", "pydantic_core", "pydevd",
    "pydevd_bundle", "pynvml", "pyro", "_pytest", "pytest", "pytest_asyncio", "pytorch_lightning", "ray", "regex", "requests",
    "rich", "s3fs", "sacremoses", "safetensors", "scipy", "seaborn", "sentence_transformers", "sentencepiece", "sentry_sdk",
    "setuptools", "shapely", "simplejson", "six", "skimage", "sklearn", "soundfile", "spacy", "starlette", "streaming",
    "submitit", "sympy", "tblib", "tensorboard", "tensorboardX", "tensorflow", "tensorstore", "threadpoolctl", "tiktoken",
    "timm", "tokenizers", "torch_geometric", "torch_xla", "torchao", "torchaudio", "torchdata", "torcheval", "torchmetrics",
    "torchrl", "torchsnapshot", "torchtext", "torchvision", "tornado", "tqdm", "transformer_engine", "transformers", "trl",
    "typer", "typing_extensions", "urllib3", "uvicorn", "wandb", "webdataset", "wrapt", "xformers", "yaml", "zarr", "zmq",
    "zstandard",
))  # fmt: skip
"""Installed packages that are never a program's own: frameworks around a training loop, and what such programs import."""

_MACHINERY = re.compile(
    r"""
    /(?:site|dist)-packages/(?:torch|torchgen|functorch|triton|_ddpdoctor_frames)(?:/|\.py$)
    | /(?:site|dist)-packages/ddpdoctor/(?!reference_train/)
    | /lib(?:64)?/python\d(?:\.\d+)?/(?!(?:site|dist)-packages/)
    | /torch/(?:_\w+|amp|autograd|cuda|distributed|fx|jit|multiprocessing|nn|optim|utils)/
    | /torch/(?:__init__|_\w+|functional|hub|serialization|storage|tensor)\.py$
    | /deepspeed/launcher/ | /accelerate/commands/ | /torchelastic/
    | /ddpdoctor/(?:agent|callbacks|cli|launch|replicas|transport|workflows)/ | /ddpdoctor/\w+\.py$
    | /bin/(?:torchrun|accelerate|accelerate-launch|deepspeed|fabric|lightning|ddpdoctor|pytest|ipython)$
    | ^<(?!stdin>|ipython|string>)
    | /sitecustomize\.py$
    | \.(?:pyx|pxi|pxd)$
    """,
    re.VERBOSE,
)
"""torch, the standard library, launchers, ourselves and extensions in Cython: what no line of the job stands in."""

_FRAMEWORK_CHECKOUT = re.compile(
    r"""
    /transformers/(?:models|utils|generation|data|integrations|pipelines)/ | /transformers/(?:trainer|modeling|training)\w*\.py$
    | /accelerate/utils/ | /accelerate/(?:accelerator|launchers|data_loader|state|optimizer|scheduler)\.py$
    | /deepspeed/(?:runtime|comm|ops|moe|pipe|inference|accelerator|checkpoint|utils)/ | /deepspeed/__init__\.py$
    | /(?:pytorch_)?lightning(?:_fabric)?/(?:pytorch|fabric|trainer|core|loops|strategies|callbacks|plugins|utilities|connectors)/
    """,
    re.VERBOSE,
)
"""Frameworks that run from their source and are not installed."""

_INSTALLED = re.compile(r"/(?:site|dist)-packages/([^/]+?)(?:\.py)?(?:/|$)")

_LAUNCHERS = re.compile(
    r"""
    (?:/|^)bin/(?:torchrun|accelerate|accelerate-launch|deepspeed|ds|horovodrun)$
    | torch/distributed/(?:run|launch|launcher/api|elastic/(?:\w{1,80}/){0,4}\w{1,80})\.py$
    | torchelastic/ | /accelerate/commands/ | /deepspeed/launcher/ | /horovod/runner/
    """,
    re.VERBOSE,
)


@lru_cache(maxsize=1 << 14)
def is_launchers(file: str) -> bool:
    """Whether `file` is code of torchrun, accelerate or another launcher."""
    return _LAUNCHERS.search(file.replace("\\", "/")) is not None


@lru_cache(maxsize=1 << 14)  # thousands of ranks run the same files
def is_programs(file: str) -> bool:
    """Whether `file` is code that the job runs above torch and the standard library: the user's own, or a framework's."""
    return bool(file) and not _MACHINERY.search(file.replace("\\", "/"))


@lru_cache(maxsize=1 << 14)
def is_users(file: str) -> bool:
    """Whether `file` is code of the user's own, also if it is installed: not torch, the standard library or a framework."""
    if not is_programs(file):
        return False
    file = file.replace("\\", "/")
    installed = _INSTALLED.search(file)
    return (installed is None or installed[1] not in _FRAMEWORKS) and not _FRAMEWORK_CHECKOUT.search(file)


def users_frames(stack: Iterable[Frame]) -> tuple[Frame, ...]:
    """The frames of the user's own code in `stack` (innermost first), outermost first.

    Those of the frameworks where no frame is the user's: a job may consist of a framework's own program.
    """
    return only_users(program_frames(stack))


def program_frames(stack: Iterable[Frame]) -> tuple[Frame, ...]:
    """The frames of the user's own code and of frameworks in `stack` (innermost first), outermost first."""
    return tuple(frame for frame in stack if is_programs(frame.file))[::-1]


def only_users(program: tuple[Frame, ...]) -> tuple[Frame, ...]:
    """Of `program_frames` those of the user's own code, or all where none is the user's."""
    return tuple(frame for frame in program if is_users(frame.file)) or program


def users_frame(stack: Iterable[Frame]) -> Frame | None:
    """The innermost frame of the user's own code in `stack` (innermost first), a framework's where there is none.

    None where the stack has neither.
    """
    frames = users_frames(stack)
    return frames[-1] if frames else None


def in_worker_loop(stack: Iterable[Frame]) -> bool:
    """Whether a data loader's worker with this stack (innermost first) makes batches, or waits to be told to."""
    return any(frame.function == _WORKER_LOOP for frame in stack)


def lines_in_worker(stack: Iterable[Frame]) -> tuple[Frame, ...]:
    """The user's lines at which a data loader's worker makes a batch, outermost first; none where it waits for work.

    What is below its loop in `stack` is where a forked worker was started.
    """
    return users_frames(takewhile(lambda frame: frame.function != _WORKER_LOOP, stack))


def runs_users_code(stack: Iterable[Frame]) -> bool:
    """Whether a frame of `stack` is in the user's own code."""
    return any(is_users(frame.file) for frame in stack)
