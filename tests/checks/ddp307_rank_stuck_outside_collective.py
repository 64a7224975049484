"""One rank sleeps, waits for a lock, a file, a server or a subprocess, or computes; healthy: all wait, or all compute."""

from collections.abc import Sequence

from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.job_log import JobLog
from ddpdoctor.evidence.process import ChildProcess, Counterpart
from ddpdoctor.evidence.ranks import RankError, RankExit
from ddpdoctor.evidence.source import CodePlace, Condition, Loop, SourceCode
from ddpdoctor.evidence.stacks import Thread
from ddpdoctor.model import Severity
from tests.checks import Sick, at
from tests.flight_records import STEP, Did, flights, record, waits
from tests.hangs import C10D, STDLIB, TORCH, hang, rank, stack

OWN_LINE = stack(user=(88, "validate"))
READS = SourceCode(places=(CodePlace(file="/job/train.py", line=88, function="validate", calls=("os.read",)),))
POLLING = Loop(line=87, head="while not os.path.exists(path)", awaits="os.path.exists(path)")
BALANCES = Loop(line=87, head="while not balanced(parts)")
IN_A_WHILE = SourceCode(places=(CodePlace(file="/job/train.py", line=88, function="validate", loops=(BALANCES,)),))
POLLS = SourceCode(places=(CodePlace(file="/job/train.py", line=88, function="validate", loops=(POLLING,)),))
TRIES_AGAIN = SourceCode(
    places=(
        CodePlace(
            file="/job/train.py",
            line=88,
            function="validate",
            loops=(Loop(line=83, head="while True"),),
            conditions=(Condition(line=87, test="except FileExistsError", branch=0),),
        ),
    )
)
ASKS_THE_STORE = SourceCode(
    places=(CodePlace(file="/job/train.py", line=88, function="validate", calls=("self.store.get",)),)
)
SUBPROCESS = stack(
    (f"{STDLIB}/subprocess.py", 1209, "wait"), (f"{STDLIB}/subprocess.py", 413, "run"), user=(70, "save")
)
EVENT = stack((f"{STDLIB}/threading.py", 327, "wait"), (f"{STDLIB}/threading.py", 622, "wait"), user=(70, "save"))
ENDED = RankExit(exit_code=-15, ended_by_launcher=True)
DIED = RankError(type="OSError", message="shard-00035.tar is truncated")
PAIR = Did("all_reduce", group="1", members=(0, 1))
OTHERS = Did("all_reduce", group="2", members=(1, 2, 3))
IMPORTS = stack(("<frozen importlib._bootstrap>", 1176, "_find_and_load"), (f"{TORCH}/__init__.py", 2150, "<module>"))
QUEUED = (STEP, waits(STEP), waits(STEP), waits(STEP))
LOOP = stack(
    (f"{STDLIB}/selectors.py", 468, "select"),
    (f"{STDLIB}/asyncio/base_events.py", 1884, "_run_once"),
    user=(49, "<module>"),
)
QUEUE = (f"{STDLIB}/queue.py", 171, "get")
LOCK = stack((f"{STDLIB}/threading.py", 271, "__enter__"), user=(70, "save"))
LOCK_FILE = stack((f"{TORCH}/utils/file_baton.py", 48, "wait"), user=(70, "build"))
LOGS_METRICS = ChildProcess(pid=120, kind="subprocess", state="R", command="wandb-core", cpu_share=0.4)
CONVERTS = ChildProcess(pid=121, kind="subprocess", state="R", command="ffmpeg -i a.mp4", cpu_share=0.9)
TEE = Counterpart(pid=55, state="S", command="/usr/bin/tee job.log")
A_RANK = Counterpart(pid=101, state="S", command="python train.py")
THE_OTHER = Counterpart(pid=102, state="S", command="python train.py")
WAITS_FOR_A_FILE_LOCK = {"system_call": "flock", "waits_on": "/data/x.lock", "pid": 102, "counterparts": (A_RANK,)}
IN_BARRIER = stack((C10D, 4600, "barrier"), user=(63, "prepare"))
LOGGER = Thread(name="logger", frames=stack(QUEUE, user=(12, "write")), os_id=101)
EXECUTOR = Thread(
    name="asyncio_0",
    frames=(
        *stack(QUEUE, user=(20, "step")),
        Frame(file=f"{STDLIB}/concurrent/futures/thread.py", line=83, function="_worker"),
    ),
    os_id=102,
)


def waited_long(*each: Sequence[Did]) -> Evidence:
    """Dumps of ranks that had waited for a minute."""
    return waited(62.0, *each)


def waited(seconds: float, *each: Sequence[Did]) -> Evidence:
    return flights(*(record(made, world=len(each), waited=seconds) for made in each))


SICK = (
    Sick(
        evidence=waited_long([STEP, waits(STEP)], [STEP, waits(STEP)], [STEP]),
        says="rank 2 did not come to all_reduce #2, in which ranks 0-1 wait; the last that it called was all_reduce #1",
        ranks=(2,),
        where=at("/home/me/job/train.py:61 train_step", 2, 0, 1),
        measured={"waiting": [0, 1]},
    ),
    Sick(  # most ranks do not come: they, or the one that waits, may be wrong
        evidence=waited_long([STEP], [STEP, waits(STEP)], [STEP]),
        says="ranks 0,2 did not come to all_reduce #2, in which rank 1 waits; the last that they called was all_reduce #1; the "
        "dumps do not tell whether rank 1 alone should have called it",
        ranks=(0, 1, 2),
        where=at("/home/me/job/train.py:61 train_step", 0, 2, 1),
        measured={"waiting": [1]},
    ),
    Sick(  # so may a rank that evaluates or saves a checkpoint
        evidence=waited(25.0, [STEP, waits(STEP)], [STEP, waits(STEP)], [STEP]),
        says="rank 2 did not come to all_reduce #2, in which ranks 0-1 wait for 25.0 s so far; the last that it called was "
        "all_reduce #1",
        severity=Severity.INFO,
        ranks=(2,),
        where=at("/home/me/job/train.py:61 train_step", 2, 0, 1),
        measured={"waiting": [0, 1]},
    ),
    Sick(  # its peers have queued calls ahead of it: it has not been away for as long as they wait
        evidence=flights(
            *(record([STEP, waits(STEP)], world=3, waited=40.0),) * 2, record([STEP], world=3, waited=12.0)
        ),
        says="rank 2 did not come to all_reduce #2, in which ranks 0-1 wait for 40.0 s so far; the last that it called was "
        "all_reduce #1",
        severity=Severity.INFO,
        ranks=(2,),
        where=at("/home/me/job/train.py:61 train_step", 2, 0, 1),
        measured={"waiting": [0, 1]},
    ),
    Sick(  # for some seconds a rank may load data or save a checkpoint
        evidence=flights([STEP, waits(STEP)], [STEP, waits(STEP)], [STEP]),
        says="rank 2 did not come to all_reduce #2, in which ranks 0-1 wait for 6.2 s so far; the last that it called was "
        "all_reduce #1",
        severity=Severity.INFO,
        ranks=(2,),
        where=at("/home/me/job/train.py:61 train_step", 2, 0, 1),
        measured={"waiting": [0, 1]},
    ),
    Sick(
        evidence=hang(rank(IMPORTS, active=True, state="R", cpu_share=0.5), rank()),
        says="rank 0 in train_step (train.py:61) imports modules; rank 1 waits for it in backward for 6.1 s",
        ranks=(0,),
        where=("rank 0 /job/train.py:61 train_step", "rank 1 /job/train.py:61 train_step"),
        measured={"activity": "imports modules", "moves": True, "seconds": 6.1, "waiting": [1]},
    ),
    Sick(  # on NCCL the others have queued what comes behind it
        evidence=waited_long(QUEUED, [STEP], QUEUED, [STEP, waits(STEP)]),
        says="rank 1 did not come to all_reduce #2, in which ranks 0,2-3 wait; the last that it called was all_reduce #1",
        ranks=(1,),
        where=at("/home/me/job/train.py:61 train_step", 1, 0, 2, 3),
        measured={"waiting": [0, 2, 3]},
    ),
    Sick(  # what others wait for in a second group is the same absence
        evidence=waited_long(
            [STEP, waits(PAIR)], [STEP], *[[STEP, Did("all_reduce", group="3", members=(2, 3)), waits(OTHERS)]] * 2
        ),
        says="rank 1 did not come to all_reduce #1 of group 1, in which rank 0 waits",
        ranks=(1,),
        where=("rank 0 /home/me/job/train.py:61 train_step",),
        measured={"waiting": [0, 2, 3]},
    ),
    Sick(
        evidence=hang(rank(), rank(), rank(OWN_LINE, system_call="clock_nanosleep"), rank()),
        says="rank 2 in validate (train.py:88) sleeps; ranks 0-1,3 wait for it in backward for 6.1 s",
        ranks=(2,),
        where=("rank 2 /job/train.py:88 validate", *at("/job/train.py:61 train_step", 0, 1, 3)),
        measured={"activity": "sleeps", "waiting": [0, 1, 3], "seconds": 6.1, "moves": False},
    ),
    Sick(
        evidence=hang(rank(OWN_LINE, system_call="read", waits_on="/mnt/data/part-7"), rank()),
        says="rank 0 in validate (train.py:88) waits for a file (read of /mnt/data/part-7); rank 1 waits for it in backward "
        "for 6.1 s",
        ranks=(0,),
        where=("rank 0 /job/train.py:88 validate", "rank 1 /job/train.py:61 train_step"),
        measured={"activity": "waits for a file", "waiting": [1], "seconds": 6.1, "moves": False},
    ),
    Sick(
        evidence=hang(rank(OWN_LINE, system_call="read", waits_on="a pipe"), rank(), facts=(READS,)),
        says="rank 0 in validate (train.py:88) waits for a pipe (read); rank 1 waits for it in backward for 6.1 s",
        ranks=(0,),
        where=("rank 0 /job/train.py:88 validate", "rank 1 /job/train.py:61 train_step"),
        measured={"activity": "waits for a pipe", "waiting": [1], "seconds": 6.1, "moves": False},
    ),
    Sick(
        evidence=hang(rank(OWN_LINE, system_call="read", waits_on="the named pipe /run/go"), rank(), facts=(READS,)),
        says="rank 0 in validate (train.py:88) waits for a pipe (read of the named pipe /run/go); rank 1 waits for it in "
        "backward for 6.1 s",
        ranks=(0,),
        where=("rank 0 /job/train.py:88 validate", "rank 1 /job/train.py:61 train_step"),
        measured={"activity": "waits for a pipe", "waiting": [1], "seconds": 6.1, "moves": False},
    ),
    Sick(
        evidence=hang(rank(OWN_LINE, system_call="write", waits_on="a pipe", counterparts=(TEE,)), rank()),
        says="rank 0 in validate (train.py:88) waits for a pipe (write) to process 55 (tee job.log); rank 1 waits for it in "
        "backward for 6.1 s",
        ranks=(0,),
        where=("rank 0 /job/train.py:88 validate", "rank 1 /job/train.py:61 train_step"),
        measured={"activity": "waits for a pipe", "waiting": [1], "seconds": 6.1, "moves": False},
    ),
    Sick(  # the one that holds the file lock waits for those that wait for the lock
        evidence=hang(rank(IN_BARRIER, pid=101), rank(OWN_LINE, **WAITS_FOR_A_FILE_LOCK)),
        says="rank 0 in prepare (train.py:63) holds a lock (/data/x.lock) while it waits in barrier; rank 1 in validate "
        "(train.py:88) waits for this lock and cannot reach the collective",
        ranks=(0,),
        where=("rank 0 /job/train.py:63 prepare", "rank 1 /job/train.py:88 validate"),
        measured={"activity": "waits for a lock", "waiting": [1], "seconds": 6.1},
    ),
    Sick(  # a lock of its own
        evidence=hang(rank(OWN_LINE, **{**WAITS_FOR_A_FILE_LOCK, "pid": 101}), rank()),
        says="rank 0 in validate (train.py:88) waits for a lock (flock of /data/x.lock, held by rank 0); rank 1 waits for it in "
        "backward for 6.1 s",
        ranks=(0,),
        where=("rank 0 /job/train.py:88 validate", "rank 1 /job/train.py:61 train_step"),
        measured={"activity": "waits for a lock", "waiting": [1], "seconds": 6.1, "moves": False},
    ),
    Sick(  # two ranks with the lock of each other
        evidence=hang(
            rank(OWN_LINE, **{**WAITS_FOR_A_FILE_LOCK, "pid": 102}),
            rank(OWN_LINE, **{**WAITS_FOR_A_FILE_LOCK, "pid": 101, "counterparts": (THE_OTHER,)}),
            rank(),
        ),
        says="ranks 0-1 in validate (train.py:88): each waits for a lock (flock of /data/x.lock, held by rank 1); rank 2 waits "
        "for them in backward for 6.1 s",
        ranks=(0, 1),
        where=(*at("/job/train.py:88 validate", 0, 1), "rank 2 /job/train.py:61 train_step"),
        measured={"activity": "waits for a lock", "waiting": [2], "seconds": 6.1, "moves": False},
    ),
    Sick(  # the one that holds the file lock sleeps
        evidence=hang(
            rank(OWN_LINE, pid=101, system_call="clock_nanosleep"), rank(OWN_LINE, **WAITS_FOR_A_FILE_LOCK), rank()
        ),
        says="rank 0 in validate (train.py:88) sleeps; ranks 1-2 wait for it in backward and for a lock that rank 0 holds for "
        "6.1 s",
        ranks=(0,),
        where=(*at("/job/train.py:88 validate", 0, 1), "rank 2 /job/train.py:61 train_step"),
        measured={"activity": "sleeps", "waiting": [1, 2], "seconds": 6.1, "moves": False},
    ),
    Sick(  # somebody else holds the file lock
        evidence=hang(rank(), rank(OWN_LINE, **{**WAITS_FOR_A_FILE_LOCK, "counterparts": (TEE,)})),
        says="rank 1 in validate (train.py:88) waits for a lock (flock of /data/x.lock, held by process 55 (tee job.log)); "
        "rank 0 waits for it in backward for 6.1 s",
        ranks=(1,),
        where=("rank 1 /job/train.py:88 validate", "rank 0 /job/train.py:61 train_step"),
        measured={"activity": "waits for a lock", "waiting": [0], "seconds": 6.1, "moves": False},
    ),
    Sick(  # a thread of it died; the job hung until it was ended
        evidence=hang((*rank(), ENDED), (*rank(EVENT), ENDED), facts=(JobLog(files=(), lines=9, errors=(DIED,)),)),
        says="rank 1 in save (train.py:70) waits for another thread or process; rank 0 waits for it in backward for 6.1 s",
        ranks=(1,),
        where=("rank 1 /job/train.py:70 save", "rank 0 /job/train.py:61 train_step"),
        measured={"activity": "waits for another thread or process", "waiting": [0], "seconds": 6.1, "moves": False},
    ),
    Sick(  # nobody waits for a peer, and all wait at one line for the same thing
        evidence=hang(rank(LOCK_FILE), rank(LOCK_FILE)),
        says="ranks 0-1 in build (train.py:70): each waits for a lock file to be deleted; no rank made progress for 6.1 s",
        ranks=(0, 1),
        where=("rank 0 /job/train.py:70 build", "rank 1 /job/train.py:70 build"),
        measured={"activity": "waits for a lock file to be deleted", "waiting": [], "seconds": 6.1, "moves": False},
    ),
    Sick(
        evidence=hang(rank(), rank(LOCK)),
        says="rank 1 in save (train.py:70) waits for a lock; rank 0 waits for it in backward for 6.1 s",
        ranks=(1,),
        where=("rank 1 /job/train.py:70 save", "rank 0 /job/train.py:61 train_step"),
        measured={"activity": "waits for a lock", "waiting": [0], "seconds": 6.1, "moves": False},
    ),
    Sick(
        evidence=hang(rank(), rank(LOOP, others=(LOGGER, EXECUTOR), system_call="epoll_wait")),
        says="rank 1 in step (train.py:20) waits for another thread or process; rank 0 waits for it in backward for 6.1 s",
        ranks=(1,),
        where=("rank 1 /job/train.py:20 step", "rank 0 /job/train.py:61 train_step"),
        measured={"activity": "waits for another thread or process", "waiting": [0], "seconds": 6.1, "moves": False},
    ),
    Sick(
        evidence=hang(rank(), rank(SUBPROCESS, system_call="wait4"), seconds=None),
        says="rank 1 in save (train.py:70) waits for a subprocess; rank 0 waits for it in backward",
        ranks=(1,),
        where=("rank 1 /job/train.py:70 save", "rank 0 /job/train.py:61 train_step"),
        measured={"activity": "waits for a subprocess", "waiting": [0], "seconds": None, "moves": False},
    ),
    Sick(
        evidence=hang(rank(), rank(OWN_LINE, system_call="clock_nanosleep"), facts=(POLLS,)),
        says="rank 1 in validate (train.py:88) sleeps until `os.path.exists(path)`; rank 0 waits for it in backward for 6.1 s",
        ranks=(1,),
        where=("rank 1 /job/train.py:88 validate", "rank 0 /job/train.py:61 train_step"),
        measured={"activity": "sleeps", "waiting": [0], "seconds": 6.1, "moves": False},
    ),
    Sick(
        evidence=hang(rank(), rank(OWN_LINE, system_call="clock_nanosleep"), facts=(TRIES_AGAIN,)),
        says="rank 1 in validate (train.py:88) sleeps after `except FileExistsError`, in a loop that tries again; rank 0 waits "
        "for it in backward for 6.1 s",
        ranks=(1,),
        where=("rank 1 /job/train.py:88 validate", "rank 0 /job/train.py:61 train_step"),
        measured={"activity": "sleeps", "waiting": [0], "seconds": 6.1, "moves": False},
    ),
    Sick(
        evidence=hang(rank(), rank(OWN_LINE, system_call="poll"), facts=(ASKS_THE_STORE,)),
        says="rank 1 in validate (train.py:88) waits for a key of the store; rank 0 waits for it in backward for 6.1 s",
        ranks=(1,),
        where=("rank 1 /job/train.py:88 validate", "rank 0 /job/train.py:61 train_step"),
        measured={"activity": "waits for a key of the store", "waiting": [0], "seconds": 6.1, "moves": False},
    ),
    Sick(
        evidence=hang(rank(EVENT), rank(EVENT), rank()),
        says="ranks 0-1 in save (train.py:70): each waits for another thread or process; rank 2 waits for them in backward "
        "for 6.1 s",
        ranks=(0, 1),
        where=("rank 0 /job/train.py:70 save", "rank 1 /job/train.py:70 save", "rank 2 /job/train.py:61 train_step"),
        measured={"activity": "waits for another thread or process", "waiting": [2], "seconds": 6.1, "moves": False},
    ),
    Sick(  # `hang` does not know for how long the others have waited
        evidence=hang(rank(), rank(OWN_LINE, active=True, moved=True, cpu_share=0.97), seconds=None),
        says="rank 1 in validate (train.py:88) computes; rank 0 waits for it in backward",
        ranks=(1,),
        where=("rank 1 /job/train.py:88 validate", "rank 0 /job/train.py:61 train_step"),
        measured={"activity": "computes", "moves": True, "seconds": None, "waiting": [0]},
        severity=Severity.INFO,
    ),
    Sick(  # nothing bounds a `while`
        evidence=hang(
            rank(), rank(OWN_LINE, active=True, moved=True, cpu_share=0.97), seconds=None, facts=(IN_A_WHILE,)
        ),
        says="rank 1 in validate (train.py:88) computes; rank 0 waits for it in backward",
        ranks=(1,),
        where=("rank 1 /job/train.py:88 validate", "rank 0 /job/train.py:61 train_step"),
        measured={"activity": "computes", "moves": True, "seconds": None, "waiting": [0]},
    ),
    Sick(  # a loop without an end looks so too
        evidence=hang(rank(), rank(OWN_LINE, active=True, cpu_share=0.97), seconds=None),
        says="rank 1 in validate (train.py:88) computes; rank 0 waits for it in backward",
        ranks=(1,),
        where=("rank 1 /job/train.py:88 validate", "rank 0 /job/train.py:61 train_step"),
        measured={"activity": "computes", "moves": True, "seconds": None, "waiting": [0]},
    ),
    Sick(  # it saves a checkpoint, and its data are on their way to the disk
        evidence=hang(rank(), rank(OWN_LINE, state="D", moved=True, io_bytes=288_000_000), seconds=None),
        says="rank 1 in validate (train.py:88) waits for something that its stack does not tell; rank 0 waits for it in backward",
        ranks=(1,),
        where=("rank 1 /job/train.py:88 validate", "rank 0 /job/train.py:61 train_step"),
        measured={
            "activity": "waits for something that its stack does not tell",
            "moves": True,
            "seconds": None,
            "waiting": [0],
        },
        severity=Severity.INFO,
    ),
    Sick(  # the bytes are those of another thread
        evidence=hang(rank(), rank(stack(QUEUE, user=(70, "save")), io_bytes=1 << 20), seconds=None),
        says="rank 1 in save (train.py:70) waits for another thread or process; rank 0 waits for it in backward",
        ranks=(1,),
        where=("rank 1 /job/train.py:70 save", "rank 0 /job/train.py:61 train_step"),
        measured={
            "activity": "waits for another thread or process",
            "moves": True,
            "seconds": None,
            "waiting": [0],
        },
    ),
    Sick(  # it does not wait for the program that computes
        evidence=hang(rank(), rank(LOCK, children=(LOGS_METRICS,)), seconds=None),
        says="rank 1 in save (train.py:70) waits for a lock; rank 0 waits for it in backward",
        ranks=(1,),
        where=("rank 1 /job/train.py:70 save", "rank 0 /job/train.py:61 train_step"),
        measured={"activity": "waits for a lock", "moves": True, "seconds": None, "waiting": [0]},
    ),
    Sick(  # nor here
        evidence=hang(rank(), rank(OWN_LINE, system_call="clock_nanosleep", children=(LOGS_METRICS,)), seconds=None),
        says="rank 1 in validate (train.py:88) sleeps; rank 0 waits for it in backward",
        ranks=(1,),
        where=("rank 1 /job/train.py:88 validate", "rank 0 /job/train.py:61 train_step"),
        measured={"activity": "sleeps", "moves": True, "seconds": None, "waiting": [0]},
    ),
    Sick(  # it waits for the program that computes
        evidence=hang(rank(), rank(SUBPROCESS, system_call="wait4", children=(CONVERTS,)), seconds=None),
        says="rank 1 in save (train.py:70) waits for a subprocess; rank 0 waits for it in backward",
        ranks=(1,),
        where=("rank 1 /job/train.py:70 save", "rank 0 /job/train.py:61 train_step"),
        measured={"activity": "waits for a subprocess", "moves": True, "seconds": None, "waiting": [0]},
        severity=Severity.INFO,
    ),
    Sick(
        evidence=hang(rank(), rank(), rank(OWN_LINE, active=True, moved=True, cpu_share=0.97)),
        says="rank 2 in validate (train.py:88) computes; ranks 0-1 wait for it in backward for 6.1 s",
        ranks=(2,),
        where=("rank 2 /job/train.py:88 validate", *at("/job/train.py:61 train_step", 0, 1)),
        measured={"activity": "computes", "waiting": [0, 1], "seconds": 6.1, "moves": True},
    ),
    Sick(
        evidence=hang(rank(), rank(OWN_LINE, system_call="connect", waits_on="a connection to 10.0.0.7:443")),
        says="rank 1 in validate (train.py:88) waits for a connection (connect of a connection to 10.0.0.7:443); "
        "rank 0 waits for it in backward for 6.1 s",
        ranks=(1,),
        where=("rank 1 /job/train.py:88 validate", "rank 0 /job/train.py:61 train_step"),
        measured={"activity": "waits for a connection", "waiting": [0], "seconds": 6.1, "moves": False},
    ),
)
HEALTHY = (hang(rank(), rank()),)
