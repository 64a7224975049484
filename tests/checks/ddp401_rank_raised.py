"""An exception of one rank's own, of a DataLoader worker, of nobody knows whom; peers that only lost it."""

from ddpdoctor.evidence.ranks import RankError, RankExit
from tests.checks import Sick
from tests.endings import CLOSED, FINE, LOST_PEER, PLACE, ended, logged, raised

INNER = RankError(type="ValueError", message="bad sample 9", stack=(PLACE,))
OUTER = RankError(type="ValueError", message="Caught ValueError in DataLoader worker process 0.", cause=INNER)
ILLEGAL_ACCESS = (
    "  what():  [PG ID 0 PG GUID 0(default_pg) Rank 1] Process group watchdog thread terminated with exception: CUDA error: an "
    "illegal memory access was encountered"
)
STORE = RankError(
    type="RendezvousConnectionError",
    message="The connection to the C10d store has failed. See inner exception for details.",
    cause=RankError(type="TimeoutError", message="timed out after 60s while trying to connect to (node-a, 29500)"),
)

SICK = (
    Sick(
        evidence=ended(LOST_PEER, raised("scratch disk is full", "SystemExit"), LOST_PEER),
        says="rank 1 called sys.exit(scratch disk is full)",
        ranks=(1,),
    ),
    Sick(  # the others leave because of the first one's error
        evidence=ended(raised("1", "SystemExit"), raised("'label 17'", "KeyError", order=1), raised("1", "SystemExit")),
        says="rank 1 raised KeyError: 'label 17'",
        ranks=(1,),
    ),
    Sick(  # gathered as an object; no process was to be started
        evidence=ended(raised("Can't pickle local object 'main.<locals>.<lambda>'", "AttributeError"), LOST_PEER),
        says="rank 0 raised AttributeError: Can't pickle local object 'main.<locals>.<lambda>'",
        ranks=(0,),
    ),
    Sick(
        evidence=ended(LOST_PEER, raised("'label 17'", "KeyError"), LOST_PEER),
        says="rank 1 raised KeyError: 'label 17'",
        ranks=(1,),
    ),
    Sick(
        evidence=ended(raised("no such file", "OSError", order=3), raised("no such file", "OSError", order=1)),
        says="ranks 0-1 raised OSError: no such file",
        ranks=(0, 1),
    ),
    Sick(
        evidence=ended(RankExit(exit_code=1, error=OUTER), LOST_PEER),
        says="rank 0 raised ValueError: bad sample 9",
        ranks=(0,),
    ),
    Sick(
        evidence=ended(
            LOST_PEER, RankExit(exit_code=1, error=RankError(type="RuntimeError", message=CLOSED, cause=INNER), order=0)
        ),
        says="rank 1 raised ValueError: bad sample 9",
        ranks=(1,),
    ),
    Sick(
        evidence=ended(LOST_PEER, RankExit(exit_code=-6, tail=(ILLEGAL_ACCESS,))),
        says="rank 1 raised CUDA error: an illegal memory access was encountered",
        ranks=(1,),
    ),
    Sick(
        evidence=ended(RankExit(exit_code=1, error=STORE)),
        says="rank 0 raised TimeoutError: timed out after 60s while trying to connect to (node-a, 29500)",
        ranks=(0,),
    ),
    Sick(evidence=logged(INNER), says="a rank that the log does not name raised ValueError: bad sample 9"),
    Sick(
        evidence=ended(RankExit(exit_code=-15, ended_by_launcher=True), RankExit(exit_code=1)),
        says="rank 1 ended with exit code 1, and nothing that explains it is in the logs given",
        ranks=(1,),
    ),
)
HEALTHY = (ended(FINE, FINE),)
