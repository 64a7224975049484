"""Which lines of a log show a failure by themselves, which show a job at work, and when a line was written."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime, timezone

_SHOWS_A_FAILURE = re.compile(
    r"""
    \[[EF]\ ?\d{0,4}\ ?[\d:.]*\ ?\w+\.(?:cpp|hpp|cc|cu):\d+\]       # an error line of torch's C++ code
    | \bNCCL\ WARN\b | NET/IB\ :\ Got
    | \[c10d\].{0,400}\b(?:has\ failed|has\ timed\ out|cannot\ be\ (?:initialized|retrieved)|recvValue\ failed|sendBytes\ failed)
    | \bFailed\ to\ check\ the\ "should\ dump"
    | ^(?:\S+\ ){0,5}[|\-\[\s(]*(?:ERROR|CRITICAL|FATAL)\b(?!\s{0,8}[:=]?\s{0,8}0\b)
    | ^(?:[\w./-]+:\ ){0,2}(?:fatal\ )?[Ee]rror:\s
    | \b[A-Z]\w*(?:Error|Exception)\b(?:\(\w+\))?(?::|$|\ \() | \b[a-z_]\w*\.Error:
    | ^[A-Z]\w{0,60}(?:Error|Exception)\ {4,}Traceback\b               # of a notebook
    | \b[Ee](?:xception|rror):\ ['"]?[A-Z]\w*(?:Error|Exception)\(
    | \|CCL_ERROR\| | \|CCL_WARN\|.{0,400}\bstatus:\ failed\b           # of Intel's oneCCL
    | ^E[A-Z]\d{4}:\ | \bNPU\ (?:function\ )?error\b                  # of Ascend
    | ^(?:\S+\ )?(?:ba|da|z)?sh:\ .{0,400}(?:No\ such\ file\ or\ directory|command\ not\ found|Permission\ denied)$
    | \bnccl(?:UnhandledCuda|System|Internal|Remote)Error | \bncclInvalid(?:Usage|Argument) | \b(?:Cuda|HIP)\ failure\b
    | \b(?:CUDA|Cuda|HIP|NCCL|cuDNN|CUBLAS)\ (?:unknown\ )?error\b | \bNCCL\ Error\b | \bout\ of\ memory\b | \bTriton\ Error\b
    | \bHSA_STATUS_ERROR | \bMemory\ access\ fault\ by\ GPU\b | \bHW\ Exception\ by\ GPU\b | \bException\ in\ device=
    | \bterminate\ called\b | \bwhat\(\): | \benforce\ fail\b | Assertion\ `.{0,400}[`']\ failed
    | \],\ thread:\ \[[\d,]+\]\ Assertion\b
    | \bCaught\ signal\ \d | \*\*\*\ SIG(?:SEGV|ABRT|BUS|FPE|ILL)\ .{0,80}?received\ (?:at\ time=|by\ PID)
    | :\ Assertion\ failure\ at\ psm3/
    | \bFatal\ Python\ error | [Ss]egmentation\ fault | \bcore\ dumped\b | \bBus\ error\b | \bbus\ error\b | \bstack\ smashing\b
    | \bkilled\ by\ signal\b | \b\d+\ Killed\b | ^Killed\b | \b[Kk]illed\ process\b
    | \boom[-_\ ]kill(?:ed|er)?\b(?![\w./]|\ 0\b) | \bOOMKilled\b
    | ^\[\d+\]\ +(?:[-+]\ +)?\d+\ (?:killed|abort)\b                  # of zsh
    | \bkilled\ due\ to\ memory | ^Terminated\b | \bDUE\ TO\ (?:TIME\ LIMIT|PREEMPTION) | \bCANCELLED\ AT\b
    | PBS:\ job\ killed | \bTERM_(?:RUNLIMIT|OWNER|PREEMPT|ADMIN|MEMLIMIT)\b | \bEvicted\b
    | \bCrashLoopBackOff\b | \bBack-off\ restarting\ failed\ container
    | ^The\ IPv\d\ network\ addresses\ of\ \(.{0,400}\ cannot\ be\ retrieved
    | \bMPI_ABORT\ was\ invoked | \bcalled\ MPI_Abort\b | \bnode\ was\ low\ on\ resource
    | ->\ [1-9]\ \[Async\ thread\] | \bError\ executing\ job\ with
    | \bBAD\ TERMINATION\b | \bKILLED\ BY\ SIGNAL\b | \bhave\ failed\ or\ timed\ out\b
    | \bdeath\ signal\b | \bgot\ signal:\ \d | \bexited\ on\ signal\b | terminated\ with\ (?:signal|exit\ code|code)
    | ^Process\ \d+\ exit\ with\ status\ code\ [1-9]
    | \b[Ee]xit(?:ed)?[\ -]?(?:[Cc]ode|with(?:\ (?:exit\ )?code)?|status)?[\ :=(]*-?[1-9]\d{0,4}\b
    | \breturn\ code\ ?=?\ ?-?[1-9] | \bnon-zero\ (?:exit|status) | \bexited\ with\ non-zero\b
    | \bConnection\ (?:refused|reset|closed|timed\ out|aborted) | \bBroken\ pipe\b | \bNo\ route\ to\ host\b | connection\ abort\b
    | \bremote\ process\ exited\b | connectFullMesh\ failed | [Aa]ddress\ already\ in\ use | EADDRINUSE
    | \bNo\ space\ left\b | \bquota\ exceeded\b | \bStale\ file\ handle\b
    | Watchdog\ caught | Heartbeat\ monitor\ timed\ out | watchdog\ got\ stuck | \bmonitoredBarrier\b
    | \bTimed\ out\ initializing | worker_count=\d+ | unrecognized\ arguments | arguments\ are\ required
    | didn't\ (?:join|finish)\ collective\ \#\d
    | \bDuplicate\ GPU\ detected | is\ not\ compatible\ with\ the\ current\ PyTorch | \bXid\b | fallen\ off\ the\ bus
    | \bUnable\ to\ determine\ the\ device\ handle\b
    | did\ not\ receive\ grad\ for\ rank | participate\ in\ calculating\ loss
    | \bdied\ unexpectedly\b | worker\ died\b | process\ has\ died | bootstrapping\ phase | Safe\ importing\ of\ main
    | [Tt]oo\ many\ open\ files | PytorchStreamWriter\ failed | StorageFull | \(Pdb\) | exited\ unexpectedly
    | :\ can't\ open\ file\ '
    | ncclSocketInit: | no\ socket\ interface\ found | ^srun:\ error | ^slurmstepd:\ error
    | Detected\ mismatch\ between\ collectives | inconsistent\ \d+\ params
    """,
    re.VERBOSE,
)
# of Horovod, as long as some ranks have not submitted what others wait in; of torch, as long as some have not come
_STALLS = re.compile(
    r"\[missing ranks: \d|^Stalled (?:ranks|ops):|^\d+: \[\w*(?:[Hh]orovod|allreduce)|"
    r"submitted to be reduced, gathered or broadcasted|"
    r"^Waiting in store based barrier to initialize process group for rank: \d"
)
_MEANS_NOTHING = re.compile(
    r"""
    errno:\ 97\b(?!.{0,400}\[E)                                      # no IPv6 on this host: IPv4 is tried next
    | \(gai\ error:\ -9\b
    | hostname\ of\ the\ client\ socket\ cannot\ be\ retrieved      # slow, but it goes on
    | Failed\ to\ open\ libibverbs | NET/Plugin | NCCL\ WARN\ MSCCL | NUMA\ auto\ balancing
    | NCCL\ WARN\ Missing\ "?\w{1,40}=\w{1,20}"?\ from\ (?:kernel\ command\ line|environment)
    | Got\ async\ event\ :\ (?:client\ reregistration|(?:GID\ table|LID|P_Key|SM)\ change|port\ active)
    | :\ [IW]\ (?:external/\w{1,40}/)?(?:tensorflow|xla)/           # of TensorFlow, which tells so when it only warns
    | NCCL\ WARN\ NCCL\ build\ date | cudaDriverVersion
    | \b\w*Warning: | ^\s*warnings\.warn | \bWARNING\b.{0,400}(?:ModuleNotFound|Import)Error
    | [Ff]ailed\ to\ load\ image\ Python\ extension
    | \berror_file\s*:\ <N/A> | no\ error\ file\ defined | \berrors?\s*[=:]\s*(?:0|None|null)\b | (?<![\w-])--[\w-]{0,60}error
    | exits\ successfully | \b0\ errors?\b | exit(?:ed)?\ (?:code|with|status)\ 0\b
    | sigkill_handler\]\ Killing | closing\ signal\ SIG
    """,
    re.VERBOSE,
)
_EXPLAINS = re.compile(
    r"did not find any unused parameters|"
    r"generated a random run_id|master_addr is only used for static rdzv_backend|hostname of the client socket cannot "
    r"be retrieved|"
    r"GLOBAL_RANK: 0, MEMBER: 1/1\b|NCCL_SOCKET_IFNAME set by environment|GLOO_SOCKET_IFNAME|Pandarallel will use "
    r"Memory file system"
)
_ALWAYS_A_FAILURE = re.compile(
    r"CUDA unknown error|unrecognized arguments|arguments are required|exits with return code|CalledProcessError"
)
_AT_WORK = re.compile(
    r"\b(?:steps?|iter(?:ation)?s?|epochs?|loss|train(?:ing|er)?|batch(?:es)?|samples|tokens|learning[_ ]rate|lr)\b|"
    r"\d(?:it/s|s/it)|\d%\|",
    re.IGNORECASE,
)
_OF_A_JOB = re.compile(
    r"\[rank\d+\]|\btorch\b|torchrun|torch\.distributed|NCCL INFO|\bnccl\b|\bgloo\b|DeepSpeed|deepspeed|accelerate|"
    r"lightning|Megatron|GLOBAL_RANK|PyTorchJob|\bDDP\b|\[c10d\b|Setting OMP_NUM_THREADS|\bRay cluster\b|\bBarrier stage\b|"
    r"world_size|WORLD_SIZE|local_rank|process group|init_process_group|exits successfully|Training (?:completed|finished|done)|"
    r"(?<!\w)(?:epoch|step|iteration|iter|it)\b[ \]:=#/]*\d|\bloss\b['\": =]*[\d.]+|\d(?:it/s|s/it)|\brank[ =:]*\d",
    re.IGNORECASE,
)
_CLEAN_END = re.compile(
    r"exits successfully|[Tt]raining (?:is )?(?:complete|completed|finished|done)|max_(?:epochs|steps)=\d+.? reached|"
    r"Init COMPLETE|[Ff]inished training|Saving (?:final|model)|\bdone\b|"
    r"Application startup complete|HTTP/[\d.]{1,3}\" 200\b",  # of a server
)
_END_OF_THE_TRAINING = re.compile(
    r"exits successfully|[Tt]raining (?:is )?(?:complete|completed|finished|done)\b|max_(?:epochs|steps)=\d+.? reached|"
    r"[Ff]inished training|done training"
)
_BARRIER = "Waiting in store based barrier"
_END_OF_THE_BARRIER = re.compile(r"\bCompleted store-based barrier for\b|\bNCCL INFO\b")
_WARNING_OF_CPP = re.compile(r"^\[W\d{0,4} ")
_NUMBER = re.compile(r"\d+(?:[.,:e+-]*\d+)*")
_OF_CPP = re.compile(
    r"\[?[EWIF] ?(?P<month>\d{1,2})(?P<day>\d\d) (?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d(?:\.\d{1,6})?)"
)
_ISO = re.compile(r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)[T _](?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)")


def shows_a_failure(text: str) -> bool:
    """Whether this line alone shows that something failed: an error, an exit code, a signal, a broken connection."""
    if _SHOWS_A_FAILURE.search(text) is None:
        return shows_a_stall(text)
    return _MEANS_NOTHING.search(text) is None or _ALWAYS_A_FAILURE.search(text) is not None


def shows_a_stall(text: str) -> bool:
    """Whether a framework says with this line that ranks wait: nothing failed if the job goes on later."""
    return _STALLS.search(text) is not None


def ends_the_barrier(text: str, stalls: Iterable[str]) -> bool:
    """Whether this line shows that all ranks have come to the store's barrier, which is what all of `stalls` wait for."""
    return _END_OF_THE_BARRIER.search(text) is not None and all(stall.startswith(_BARRIER) for stall in stalls)


def explains_a_failure(text: str) -> bool:
    """Whether this line, which shows no failure, can explain one."""
    return _EXPLAINS.search(text) is not None


def shows_work(text: str) -> bool:
    """Whether this line reads like progress of a training: a step, a loss, a rate."""
    return _AT_WORK.search(text) is not None


def shows_health(text: str) -> bool:
    """Whether this line shows a job at work or at a clean end."""
    return _CLEAN_END.search(text) is not None or (any(map(str.isdigit, text)) and shows_work(text))


def ends_the_training(text: str) -> bool:
    """Whether this line shows that the training has come to its end."""
    return _END_OF_THE_TRAINING.search(text) is not None


def warns(text: str) -> bool:
    """Whether torch's C++ code only warns with this line."""
    return _WARNING_OF_CPP.match(text) is not None


def is_of_a_job(text: str) -> bool:
    """Whether only a job of training or of torch.distributed writes such a line."""
    return _OF_A_JOB.search(text) is not None


def form_of(text: str) -> str:
    """The line without its numbers and its bar: two lines of progress have the same form."""
    return _NUMBER.sub("#", text.strip()[:300]).translate(_BARS)


def time_of(stamp: str, text: str) -> tuple[float, str] | None:
    """Seconds since the beginning of the year, and the clock as the line shows it; None where it shows none."""
    found = _OF_CPP.match(text) or _ISO.search(stamp) or _ISO.search(text[:60])
    if found is None:
        return None
    try:
        moment = datetime(
            2000, int(found["month"]), int(found["day"]), int(found["hour"]), int(found["minute"]), tzinfo=timezone.utc
        )
    except ValueError:
        return None
    seconds = (moment - datetime(2000, 1, 1, tzinfo=timezone.utc)).total_seconds() + float(found["second"])
    return seconds, f"{found['hour']}:{found['minute']}:{found['second'][:2]}"


_BARS = {ord(character): None for character in "█▏▎▍▌▋▊▉ #|-=>"}
