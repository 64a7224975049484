"""The wait that a Python stack shows: which library functions are above the user's own line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum

from ddpdoctor.evidence.frames import Frame, runs_users_code, users_frame

FORWARD, BACKWARD, NEW_GROUP, WAIT_TENSOR = "forward", "backward", "new_group", "wait_tensor"
POINT_TO_POINT = re.compile(r"send|recv")  # of operations


class Activity(Enum):
    """What a rank does. The first group waits for its peers; the others keep their peers waiting."""

    COLLECTIVE = "waits in a collective"
    DEVICE = "waits for its device"
    RENDEZVOUS = "waits for the other ranks to join"
    SLEEP = "sleeps"
    LOCK = "waits for a lock"
    LOCK_FILE = "waits for a lock file to be deleted"
    HANDOVER = "waits for another thread or process"
    FILE = "waits for a file"
    PIPE = "waits for a pipe"
    SOCKET = "waits for a connection"
    SUBPROCESS = "waits for a subprocess"
    STORE = "waits for a key of the store"
    DATA_LOADER = "waits for its data loader"
    HUMAN = "waits for a person at the keyboard"
    STOPPED = "is stopped"
    UNINTERRUPTIBLE = "is in uninterruptible IO"
    GIL = "holds the GIL"
    COMPUTING = "computes"
    IMPORTING = "imports modules"
    EXITING = "is about to exit"
    UNKNOWN = "waits for something that its stack does not tell"


WAITS_FOR_PEERS = frozenset({Activity.COLLECTIVE, Activity.DEVICE, Activity.RENDEZVOUS})
NEVER_HEALTHY = frozenset({Activity.STOPPED, Activity.HUMAN})

_TORCH = "/torch/"
_C10D = "/torch/distributed/distributed_c10d"
_AGENTS_CALLS = "/agent/inside/calls/collective_hooks"
_DDP = "/torch/nn/parallel/distributed"

# (activity, file, functions) in order: a wait for the loader ends in a lock, and it is the loader that tells.
# What stands below the user's own line (the module, torchrun's wrappers) never counts.
_PLACES = (
    (Activity.HUMAN, r"/(pdb|bdb|cmd|code|ipdb/[^:]{0,200}|pdbpp|pudb/[^:]{0,200}|IPython/terminal/[^:]{0,200})", ".*"),
    (
        Activity.DATA_LOADER,
        r"/torch/utils/data/(dataloader|_utils/\w+)",
        "_try_get_data|_get_data|_next_data|_shutdown_workers|__next__",
    ),
    (Activity.COLLECTIVE, _C10D, NEW_GROUP),  # of the ranks that have joined
    (Activity.RENDEZVOUS, "/torch/distributed/rendezvous", ".*"),
    (Activity.RENDEZVOUS, _C10D, "init_process_group|_store_based_barrier|_new_process_group_helper"),
    (Activity.EXITING, _C10D, "destroy_process_group"),
    (Activity.COLLECTIVE, _C10D, ".*"),
    (Activity.COLLECTIVE, _AGENTS_CALLS, "waited"),  # of `work.wait()`
    (Activity.COLLECTIVE, "/torch/distributed/_functional_collectives", WAIT_TENSOR),  # of a DTensor
    (Activity.COLLECTIVE, _DDP, "_sync_buffers|_sync_module_states|_pre_forward|_build_params_for_reducer"),
    (
        Activity.COLLECTIVE,
        "/torch/distributed/utils",
        "_sync_params_and_buffers|_sync_module_states|_verify_param_shape_across_processes",
    ),
    (Activity.COLLECTIVE, "/torch/autograd/graph", "_engine_run_backward"),
    (Activity.EXITING, "/multiprocessing/util", "_exit_function"),
    (Activity.EXITING, "/threading", "_shutdown"),
    (Activity.EXITING, "/concurrent/futures/thread", "_python_exit"),
    (Activity.SUBPROCESS, "/subprocess", "_wait|wait|_try_wait|communicate|_communicate|run"),
    (Activity.SUBPROCESS, r"/multiprocessing/(popen_\w+|process)", "wait|poll|join"),
    (Activity.LOCK_FILE, "/torch/utils/file_baton", "wait"),
    (Activity.LOCK, "/(threading|multiprocessing/synchronize)", "acquire|__enter__"),
    (Activity.LOCK, r"/filelock/(?:\w+/)?\w+", ".*"),
    (Activity.HANDOVER, "/(threading|multiprocessing/synchronize)", "wait|wait_for|_wait_for_tstate_lock|join|result"),
    (Activity.HANDOVER, "/(queue|multiprocessing/(queues|pool|connection))", ".*"),
    (Activity.HANDOVER, "/concurrent/futures/_base", "result"),
    (Activity.SOCKET, r"/(socket|ssl|http/client|urllib3/\w+|requests/\w+)", ".*"),
)
_TELLING = tuple((activity, re.compile(rf"{file}\.py:(?:{functions})$")) for activity, file, functions in _PLACES)
_IMPORT = re.compile(r"^<frozen importlib\._bootstrap>:_find_and_load$")
_INSTALLED = re.compile(r"/(?:site|dist)-packages/")
_EVENT_LOOP = re.compile(r"/asyncio/base_events\.py:_run_once$")
_EXECUTOR = re.compile(r"/concurrent/futures/thread\.py:_worker$")
_LOGGING_WRAPPER = "/torch/distributed/c10d_logger.py"  # torch's decorator around functions of torch.distributed
_JOINS_A_THREAD = re.compile(r"/threading\.py:(join|_wait_for_tstate_lock|_shutdown)$")


def activity_in_stack(frames: Sequence[Frame]) -> tuple[Activity, str] | None:
    """The activity, and the function that the user called for it, in a stack whose innermost frame is the first.

    None where the user's own line is on top: then a C function without a Python frame was called, or nothing. Frames of torch
    in an import by the user's line are modules and classes that are being defined: they wait for nobody.
    """
    above = _above(frames)
    defines = imports(frames)
    names = [f"{frame.file}:{frame.function}" for frame in above if not (defines and _TORCH in frame.file)]
    for activity, pattern in _TELLING:
        if any(map(pattern.search, names)):
            return activity, _operation(activity, above)
    return None


def imports(frames: Sequence[Frame]) -> bool:
    """Whether the user's innermost line imports a module that is not the user's own, or no line has run yet.

    Or whether an installed module is being imported: what its own lines call belongs to the import.
    """
    if any(_IMPORT.search(f"{frame.file}:{frame.function}") for frame in _above(frames)):
        return True
    loads = (depth for depth, frame in enumerate(frames) if _IMPORT.search(f"{frame.file}:{frame.function}"))
    within = frames[: next(loads, 0)]
    module = next((frame for frame in reversed(within) if frame.function == "<module>"), None)
    return module is not None and _INSTALLED.search(module.file) is not None


def _above(frames: Sequence[Frame]) -> Sequence[Frame]:
    """The frames of libraries above the user's innermost line; all where the user has none."""
    mine = users_frame(frames)
    return frames[: frames.index(mine)] if mine is not None else frames


def joins_a_thread(frames: Sequence[Frame]) -> bool:
    """Whether the thread only waits for another one to end."""
    return any(_JOINS_A_THREAD.search(f"{frame.file}:{frame.function}") for frame in frames[:3])


def turns_an_event_loop(frames: Sequence[Frame]) -> bool:
    """Whether the thread waits in asyncio for something to happen."""
    return any(_EVENT_LOOP.search(f"{frame.file}:{frame.function}") for frame in frames[:3])


def works_for_an_executor(frames: Sequence[Frame]) -> bool:
    """Whether the thread is one to which work is handed, and has some of the user's."""
    handed = any(_EXECUTOR.search(f"{frame.file}:{frame.function}") for frame in frames)
    return handed and runs_users_code(frames)


def _operation(activity: Activity, above: Sequence[Frame]) -> str:
    """The function that the user called: of torch.distributed's own the outermost one."""
    if any(frame.function == "_engine_run_backward" for frame in above):
        return BACKWARD
    if any(frame.function == WAIT_TENSOR for frame in above):
        return WAIT_TENSOR
    if activity is Activity.COLLECTIVE:
        named = [frame.function for frame in above if frame.file.endswith((f"{_C10D}.py", f"{_DDP}.py"))]
        if not named and above[-1].file.endswith(f"{_AGENTS_CALLS}.py"):
            return "wait"
        return named[-1] if named else above[-1].function
    called = [frame.function for frame in above if not frame.file.endswith(_LOGGING_WRAPPER)]
    return called[-1] if called else ""
