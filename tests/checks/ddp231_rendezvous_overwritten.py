from dataclasses import replace

from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.launch import EnvOverwrite, EnvOverwrites, Joining
from ddpdoctor.evidence.ranks import RankError, RankExit
from tests.checks import Sick
from tests.hangs import C10D, SCRIPT, hang, rank, stack

WAITS = rank(
    stack((C10D, 1899, "init_process_group"), user=(8, "ddp_setup")),
    system_call="nanosleep",
)
GIVEN, ELSEWHERE = "localhost:34491", "localhost:12355"
PORT = EnvOverwrite(name="MASTER_PORT", value="12355", file=SCRIPT, line=7, function="ddp_setup")
HOST = EnvOverwrite(name="MASTER_ADDR", value="127.0.0.1", file=SCRIPT, line=6, function="ddp_setup")
UNNAMED = EnvOverwrite(name="", value="", file=SCRIPT, line=4, function="load")
LINES = EnvOverwrites(each=(HOST, PORT))


def waiting(*joining: Joining, facts: tuple[object, ...] = (LINES,)) -> Evidence:
    return hang(*((*WAITS, one) for one in joining), facts=facts)


def told(used: str | None = ELSEWHERE, *, store: bool = True) -> Joining:
    return Joining(called=True, given=GIVEN, used=used, launchers_store=store)


def at_ports(*ports: int) -> Evidence:
    """Ranks without a launcher, each of which looks for a port of this host."""
    return waiting(*(Joining(called=True, used=f"localhost:{port}") for port in ports), facts=())


def refused() -> Evidence:
    said = "The client socket has timed out after 600000ms while trying to connect to (localhost, 12355)."
    error = RankError(type="DistNetworkError", message=said, stack=(Frame(file=SCRIPT, line=8, function="ddp_setup"),))
    evidence = hang((RankExit(exit_code=1, error=error),), (RankExit(exit_code=1, error=error),), seconds=None)
    return Evidence(job=(LINES,), ranks=evidence.ranks, about_job=True)


PLACES = tuple(f"rank {number} {SCRIPT}:7 ddp_setup" for number in (0, 1))
WAITING_AT = f"rank 0 {SCRIPT}:8 ddp_setup"
SAYS = (
    f"ranks 0-1 look for the rendezvous at {ELSEWHERE}; the launcher serves it at {GIVEN}: the program sets MASTER_PORT"
)

SICK = (
    Sick(
        evidence=waiting(told(), told()),
        says=SAYS,
        ranks=(0, 1),
        where=(*PLACES, WAITING_AT),
        measured={"used": ELSEWHERE, "given": GIVEN},
    ),
    Sick(  # as `hang` sees it: the lines alone tell the address
        evidence=waiting(told(None), told(None), facts=(EnvOverwrites(each=(PORT,)),)),
        says=SAYS,
        ranks=(0, 1),
        where=(*PLACES, WAITING_AT),
        measured={"used": ELSEWHERE, "given": GIVEN},
    ),
    Sick(  # the agent saw the line that set it; what the source shows besides does not count
        evidence=waiting(
            *(replace(told(), overwrites=(replace(PORT, line=3, function="load"),)) for _ in range(2)),
            facts=(EnvOverwrites(each=(HOST, UNNAMED)),),
        ),
        says=SAYS,
        ranks=(0, 1),
        where=(f"rank 0 {SCRIPT}:3 load", f"rank 1 {SCRIPT}:3 load", WAITING_AT),
        measured={"used": ELSEWHERE, "given": GIVEN},
    ),
    Sick(  # as the agents saw it, each rank has set a port of its own; that of a rank of which none is known is not guessed
        evidence=waiting(
            *(
                replace(told(f"localhost:{port}"), overwrites=(replace(PORT, value=str(port)),))
                for port in (12355, 12356, 12357)
            ),
            told(None),
            facts=(),
        ),
        says=f"ranks 0-2 look for the rendezvous at localhost:12355 (rank 0) and localhost:12356 (rank 1) and localhost:12357 "
        f"(rank 2); the launcher serves it at {GIVEN}: the program sets MASTER_PORT",
        ranks=(0, 1, 2),
        where=(*(f"rank {number} {SCRIPT}:7 ddp_setup" for number in range(3)), WAITING_AT),
        measured={"used": "localhost:12355, localhost:12356, localhost:12357", "given": GIVEN},
    ),
    Sick(  # the source does not name what it sets
        evidence=waiting(told(), told(), facts=(EnvOverwrites(each=(HOST, UNNAMED)),)),
        says=SAYS.removesuffix(": the program sets MASTER_PORT"),
        ranks=(0, 1),
        where=(f"rank 0 {SCRIPT}:4 load", f"rank 1 {SCRIPT}:4 load", WAITING_AT),
        measured={"used": ELSEWHERE, "given": GIVEN},
    ),
    Sick(  # under `if rank == 1:`; a line under another test, whose value no rank looks for, is not shown
        evidence=waiting(
            told(GIVEN),
            told("node7:34491"),
            facts=(
                EnvOverwrites(
                    each=(
                        replace(HOST, value="node7", line=5, conditional=True),
                        replace(HOST, value="node9", line=6, conditional=True),
                    )
                ),
            ),
        ),
        says=f"rank 1 looks for the rendezvous at node7:34491; the launcher serves it at {GIVEN}: the program sets MASTER_ADDR",
        ranks=(1,),
        where=(f"rank 1 {SCRIPT}:5 ddp_setup", f"rank 1 {SCRIPT}:8 ddp_setup"),
        measured={"used": "node7:34491", "given": GIVEN},
    ),
    Sick(  # by a launcher that serves no store, and on one rank only
        evidence=waiting(told(GIVEN, store=False), told(store=False), facts=()),
        says=f"rank 1 looks for the rendezvous at {ELSEWHERE}; the launcher serves it at {GIVEN}",
        ranks=(1,),
        where=(f"rank 1 {SCRIPT}:8 ddp_setup",),
        measured={"used": ELSEWHERE, "given": GIVEN},
    ),
    Sick(  # a port for each rank
        evidence=waiting(told(), told("localhost:12356"), facts=()),
        says=f"ranks 0-1 look for the rendezvous at {ELSEWHERE} (rank 0) and localhost:12356 (rank 1); the launcher serves "
        f"it at {GIVEN}",
        ranks=(0, 1),
        where=(WAITING_AT,),
        measured={"used": f"{ELSEWHERE}, localhost:12356", "given": GIVEN},
    ),
    Sick(  # no launcher, and `init_method` tells each rank another port
        evidence=at_ports(4000, 4001),
        says="rank 1 looks for the rendezvous at localhost:4001; rank 0 serves it at localhost:4000; no majority: either side "
        "may be at fault",
        ranks=(0, 1),
        where=(WAITING_AT,),
        measured={"used": "localhost:4001", "given": "localhost:4000"},
    ),
    Sick(
        evidence=at_ports(4000, 4000, 4001),
        says="rank 2 looks for the rendezvous at localhost:4001; rank 0 serves it at localhost:4000",
        ranks=(2,),
        where=(f"rank 2 {SCRIPT}:8 ddp_setup",),
        measured={"used": "localhost:4001", "given": "localhost:4000"},
    ),
    Sick(  # most ranks agree, and rank 0 is not one of them
        evidence=at_ports(4000, 4001, 4001, 4001),
        says="ranks 1-3 look for the rendezvous at localhost:4001; rank 0 serves it at localhost:4000",
        ranks=(0,),
        where=(WAITING_AT,),
        measured={"used": "localhost:4001", "given": "localhost:4000"},
    ),
    Sick(  # the port depends on the rank: no two agree
        evidence=at_ports(4000, 4001, 4002),
        says="ranks 1-2 look for the rendezvous at localhost:4001 (rank 1) and localhost:4002 (rank 2); rank 0 serves it at "
        "localhost:4000",
        ranks=(1, 2),
        where=(f"rank 1 {SCRIPT}:8 ddp_setup",),
        measured={"used": "localhost:4001, localhost:4002", "given": "localhost:4000"},
    ),
    Sick(
        evidence=refused(),
        says=f"ranks 0-1 look for the rendezvous at {ELSEWHERE}: the program sets MASTER_PORT",
        ranks=(0, 1),
        where=(*PLACES, WAITING_AT),
        measured={"used": ELSEWHERE, "given": None},
        also=("DDP204",),
    ),
)
HEALTHY = (
    waiting(told(GIVEN), told(GIVEN), facts=(EnvOverwrites(each=(UNNAMED,)),)),
    waiting(told(None), told(None), facts=(EnvOverwrites(each=(UNNAMED,)),)),
    waiting(*(replace(told(GIVEN), overwrites=(replace(PORT, value="34491"),)) for _ in range(2)), facts=()),
    waiting(told(GIVEN), told(GIVEN), facts=()),
    waiting(told("127.0.0.1:34491"), told("127.0.0.1:34491"), facts=(EnvOverwrites(each=(HOST,)),)),
    waiting(Joining(called=True, used="node0:4000"), Joining(called=True, used="10.0.0.1:4000"), facts=()),
    waiting(told(store=False), told(store=False)),  # all alike, and rank 0 serves the store where they say
)
