"""A rank raised an exception of its own; the errors of its peers about closed connections are secondary."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ddpdoctor.analysis.collectives.mispaired_objects import MispairedObjects
from ddpdoctor.analysis.collectives.places.framework_requests import exits_with_an_error, line_of
from ddpdoctor.analysis.crashes.failure import Failure, error_text, unique_ranks, who
from ddpdoctor.analysis.crashes.failures import NO_PLACE, Failures
from ddpdoctor.evidence.frames import users_frame
from ddpdoctor.evidence.ranks import RankError
from ddpdoctor.evidence.run import CommandRun
from ddpdoctor.evidence.source import SourceCode, place_of
from ddpdoctor.model import Finding, Rule, Severity, Where

UNNAMED = "an exception that the log does not name"
RULE = Rule(
    code="DDP401",
    name="rank-raised",
    summary="a rank raised an exception, and its peers lost it",
    severity=Severity.FAIL,
    shown_by="one rank's log has a traceback of its own that is older than its peers' connection errors: "
    "`ddpdoctor diagnose` on all logs",
    remedy="fix the error at this line; what the other ranks print about closed connections and timeouts comes from it",
    explains=(
        "DDP205",
        "DDP226",
        "DDP305",
        "DDP306",
        "DDP307",
        "DDP308",
        "DDP311",
        "DDP314",
        "DDP318",
        "DDP408",
        "DDP418",
        "DDP426",
    ),
)
SHOWN_OTHERS = 3
_OPTIONS = re.compile(
    r"(?:[\w./-]{1,200}: error|Error): (?P<why>(?:argument |unrecognized arguments|the following arguments|No such option|"
    r"Missing (?:option|argument|parameter)|Invalid value|Got unexpected|Option ).*)",
    re.DOTALL,
)
MOST_OF_OPTIONS = 200  # characters
APART_SECONDS = 2.0  # torchrun looks every 0.1 s, its tables show whole seconds
# what to do about errors that no line of the user's own is to blame for
_REMEDIES = {
    r"DataLoader worker \(pid\(?s?\)? [\d, ]+\) is killed by signal: (?:Segmentation fault|Aborted|Illegal|Floating)": (
        "find the library that crashed in the worker: with `num_workers=0` and PYTHONFAULTHANDLER=1 the rank itself crashes, and "
        "prints the line"
    ),
    r"DataLoader worker \(pid\(?s?\)? [\d, ]+\) exited unexpectedly with exit code [1-9]": (
        "find the call by which the worker ends its process (`os._exit`, `sys.exit`, or a library's): nobody killed it. With "
        "`num_workers=0` the rank itself ends there"
    ),
    r"DataLoader worker \(pid\(?s?\)? [\d, ]+\) (?:is killed by signal|exited unexpectedly)": (
        "find out who killed the worker, most often the kernel for memory (`dmesg | grep -i oom`): use fewer workers, a smaller "
        "prefetch_factor, and no large Python lists in the data set, which every worker copies"
    ),
    r"[Cc]annot re-initialize CUDA in forked subprocess": (
        "use nothing of CUDA before the processes are forked: in a notebook no `.cuda()` or `.to('cuda')` in a cell that runs "
        "before the launcher's (restart its kernel); else start them with the method `spawn`"
    ),
    r"initialize the default process group twice": (
        "call init_process_group once in each process, as a framework may have done already: `if not dist.is_initialized():` "
        "before the call, or destroy_process_group() after the group before"
    ),
    r"Expected more than 1 value per channel when training": (
        "give each rank at least two samples per step where batch norm is trained: drop_last=True, or a batch size that leaves "
        "no single sample on a rank"
    ),
    r"No backend type associated with device type cpu": (
        "move the tensor to the GPU of its rank before the call (objects that torch pickles follow torch.cuda.current_device()), "
        "or give the group a backend for both: init_process_group('cpu:gloo,cuda:nccl')"
    ),
    r"(?:CUDA|HIP) error: .*(?:illegal memory access|device-side assert|misaligned address)": (
        "run it again with CUDA_LAUNCH_BLOCKING=1, which gives the line of the kernel that failed: most often an index is out of "
        "range"
    ),
    r"(?:CUDA|HIP) error: .*(?:ECC|NVLink|[Nn]vlink|unspecified launch failure|hardware)": (
        "look at the GPU of this rank (`dmesg | grep Xid`, `ddpdoctor env` on its host), and leave it out until it is reset"
    ),
    r"[Cc]an(?:'t|not) allocate memory|std::bad_alloc|^MemoryError": (
        "keep less in memory at this line, or ask for more: the rank reached its limit (`ulimit -v`, the cgroup's memory.max), "
        "or the host has no memory left"
    ),
    r"lib(?:torch|c10)\w*\.so\S*: undefined symbol: nccl": (
        "another NCCL than that of this torch was loaded, an older one: look at LD_LIBRARY_PATH and LD_PRELOAD, and at "
        "`pip list | grep nccl`; `pip install --force-reinstall torch` brings the right one"
    ),
    r"Unsupported operand|invalid load key|[Hh]eader ?[Tt]oo ?[Ll]arge|MetadataIncompleteBuffer|central directory|Ran out of "
    r"input": (
        "look at the file (`ls -l FILE; head -c 100 FILE`): text that begins with `version https://git-lfs` is a pointer, and "
        "`git lfs pull` brings the file itself; a file that is too short was cut while it was written or copied"
    ),
    r"Stale file handle|\[Errno 5\]|Remote I/O error|Transport endpoint is not connected": (
        "look at the file system of this path on the host of this rank (`dmesg | tail`, `ls PATH`): it lost its server, or "
        "another host removed the file while it was open; then start again from the last checkpoint"
    ),
    r"Permission denied": (
        "let the user that the job runs as read and write there (`id`, `ls -ld PATH`, on the host of this rank), or choose "
        "another path"
    ),
    r"CUDNN_STATUS_|CUBLAS_STATUS_": (
        "run it again with CUDA_LAUNCH_BLOCKING=1: an earlier kernel may have failed, most often because of an index out of "
        "range, or the memory of the GPU is full (`nvidia-smi`)"
    ),
    r"[Aa]ddress already in use|EADDRINUSE": (
        "another program holds the port, often an earlier run of this job: `ddpdoctor port NUMBER` says which, and what is free"
    ),
    r"RendezvousTimeoutError|seconds waiting for clients|timed out .*(?:trying|attempting) to connect": (
        "a node did not come, or the network between them is closed: start `ddpdoctor net` on all of them in the same way"
    ),
}
_NO_SCRIPT = re.compile(r": can't open file '(?P<path>[^']{1,4096})': \[Errno 2\]")
_PYTHON_COULD_NOT_START = 2  # the exit code of Python where it cannot read its script
_EXIT_CALLS = ("os._exit", "sys.exit", "_exit", "exit", "quit")


def check(
    failures: Failures,
    code: SourceCode | None,
    mispaired: MispairedObjects | None = None,
    run: CommandRun | None = None,
) -> Iterator[Finding]:
    """The first exception that is no secondary error, the ranks that raised it, and the line of the user's own code.

    A rank that could not read what it received from another call of its peers shows how their calls met, and no error of its own.
    """
    own = [one for one in failures.own if mispaired is None or one not in mispaired.failures]
    if not own and failures.own:
        return
    if not own:
        yield from _without_a_script(failures, run) or _wordless(failures, code)
        return
    first = own[0]
    same = [failure for failure in own if _key(failure) == _key(first)]
    later = [failure for failure in own if _key(failure) != _key(first)]
    assert first.error is not None
    ranks = unique_ranks(same)
    yield RULE.finding(
        f"{who(same)} raised {error_text(first.error)}",
        ranks=ranks,
        where=[where for failure in same for where in failure.where(_note(failure))],
        details=[
            *_asserted(first, failures),
            *([NO_PLACE] if all(failure.place is None for failure in same) and failures.log is not None else []),
            *(
                f"later {failure.who} raised {error_text(failure.error)}"
                for failure in later[:SHOWN_OTHERS]
                if failure.error
            ),
        ],
        remedy=_remedy(first.error),
        severity=Severity.WARN if first.error.type == UNNAMED else None,
        type=first.error.type,
        error=first.error.message,
        exit_code=first.exit.exit_code,
    )


def _note(failure: Failure) -> str:
    """Torch learns of a dead worker by a signal, whose handler raises at whatever line the rank is: that line did no wrong."""
    stack = failure.error.stack if failure.error is not None else ()
    by_signal = bool(stack) and stack[0].file.endswith("torch/utils/data/_utils/signal_handling.py")
    return "was here when the worker died" if by_signal else "raised here"


def _asserted(failure: Failure, failures: Failures) -> Iterator[str]:
    """`the kernel said: Loss.cu:250: ... Assertion `t < n_classes` failed.`, which a GPU prints beside the exception."""
    assert failure.error is not None
    if "device-side assert" in failure.error.message:
        output = (*failure.exit.tail, *(failures.log.said if failures.log is not None else ()))
        yield from [f"the kernel said: {line.strip()}" for line in output if "Assertion `" in line][:1]


def _remedy(error: RankError) -> str | None:
    words = f"{error.type}: {error.message}"
    return next((advice for pattern, advice in _REMEDIES.items() if re.search(pattern, words)), None)


def _without_a_script(failures: Failures, run: CommandRun | None) -> list[Finding]:
    """The script that Python could not open, where that ended every rank or, before there were any, the command."""
    ended = {failure.exit.exit_code for failure in failures.wordless}
    if not failures.all and run is not None:
        ended = {run.exit_code}
    if failures.finished or ended != {_PYTHON_COULD_NOT_START} or failures.log is None:
        return []
    found = next(filter(None, (_NO_SCRIPT.search(line.text) for line in failures.log.failure_lines)), None)
    if found is None:
        return []
    return [
        RULE.finding(
            f"the script does not exist: Python found no file {found['path']}",
            remedy="correct the path of the script, or start the command in the directory to which the path belongs",
            exit_code=_PYTHON_COULD_NOT_START,
        )
    ]


def _wordless(failures: Failures, code: SourceCode | None) -> Iterator[Finding]:
    """Ranks that failed while nothing that they said is available, or only where they called `sys.exit`."""
    found = failures.wordless
    left = [failure for failure in found if failure.left]
    if left and left[0].error is not None:
        same = [failure for failure in left if _key(failure) == _key(left[0])]
        yield RULE.finding(
            f"{who(same)} called {_exit_call(left[0].error, code)}({left[0].error.message})",
            ranks=unique_ranks(same),
            where=[where for failure in same for where in failure.where("left here")],
            remedy="see what leads to this line; what the other ranks print about closed connections comes from it",
            exit_code=left[0].exit.exit_code,
        )
    elif found:
        yield _without_a_message(found, failures, code)


def _exit_call(error: RankError, code: SourceCode | None) -> str:
    """`os._exit`, `exit`: the call as the line that left has it; `sys.exit` where the source does not tell."""
    place = users_frame(error.stack)
    known = place_of(code, place)
    called = known.calls if known is not None else ()
    return next((name for name in _EXIT_CALLS if name in called), "sys.exit")


def _without_a_message(found: Sequence[Failure], failures: Failures, code: SourceCode | None) -> Finding:
    """Of ranks that ended at once with one code nothing shows which was first: none is named."""
    codes = sorted({failure.exit.exit_code for failure in found if failure.exit.exit_code is not None})
    times = {failure.exit.ended_at for failure in found}
    alone = len(found) == 1 and found[0].rank is not None
    spared = {failure.rank for failure in failures.all if failure.exit.ended_by_launcher} | {*failures.finished}
    first = min(found, key=lambda failure: failure.exit.ended_at or 0.0)
    named = [first] if alone or (None not in times and _apart(found)) else []
    ended = f"{who(named or found)} ended with exit code {' and '.join(map(str, codes if not named else [first.exit.exit_code]))}"
    closed = failures.log.closed if failures.log is not None else 0
    certain = bool(named) and (bool(spared or closed) or len(found) > 1)
    printed = [line.text for line in failures.log.failure_lines] if failures.log is not None else []
    exits = (
        exits_with_an_error(code, printed, unique_ranks(named), [rank for rank in spared if rank is not None])
        if certain
        else None
    )
    if exits is not None:
        return RULE.finding(
            f"{who(named)} left by `{exits.text}` with exit code {first.exit.exit_code}",
            ranks=unique_ranks(named),
            where=[Where.at(line_of(exits), rank=rank, note="left here") for rank in unique_ranks(named)],
            remedy="see what leads to this line; what the other ranks print about closed connections comes from it",
            exit_code=first.exit.exit_code,
        )
    refused = _refused_options(failures) if {failure.exit.exit_code for failure in named or found} == {2} else None
    if refused is not None:
        return RULE.finding(
            f"{ended}: the program refused its options: {refused}",
            ranks=unique_ranks(named or found),
            remedy="correct the options of the command; `--help` of the program lists them",
            exit_code=2,
        )
    return RULE.finding(
        f"{ended}, and nothing that explains it is in the logs given",
        ranks=unique_ranks(named),
        severity=None if certain else Severity.WARN,
        remedy="give what these ranks wrote to stderr as well: torchrun keeps it with `--log-dir DIR --redirects 3`",
        exit_code=first.exit.exit_code,
    )


def _refused_options(failures: Failures) -> str | None:
    """What the program itself says of its options, as argparse and click print it before they exit with code 2."""
    options = (_OPTIONS.match(line) for line in (failures.log.said if failures.log is not None else ()))
    return next(
        (found["why"].partition(" (choose from")[0][:MOST_OF_OPTIONS] for found in options if found is not None), None
    )


def _apart(found: Sequence[Failure]) -> bool:
    """Whether one of them ended clearly before the others."""
    times = sorted(failure.exit.ended_at or 0.0 for failure in found)
    return len(times) > 1 and times[1] - times[0] >= APART_SECONDS


def _key(failure: Failure) -> tuple[str, object]:
    """What makes two failures one bug: the type of the exception and the line."""
    return (failure.error.type if failure.error is not None else "", failure.place)
