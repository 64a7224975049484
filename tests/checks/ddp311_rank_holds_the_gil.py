"""A C function that keeps the GIL, with and without its name; healthy: a rank whose interpreter ends."""

from tests.checks import Sick
from tests.standstills import rank, stack, standstill

OWN = stack(user=(70, "checksum"))

SICK = (
    Sick(
        evidence=standstill(
            rank(), rank(OWN, holds_gil=True, gil_never_free=True, native=("sleep (libc.so.6)",)), rank()
        ),
        says="rank 1 in checksum (train.py:70) holds the GIL in sleep (libc.so.6); ranks 0,2 wait for it in backward for 6.1 s",
        ranks=(1,),
    ),
    Sick(
        evidence=standstill(rank(OWN, holds_gil=True, gil_never_free=True), rank()),
        says="rank 0 in checksum (train.py:70) holds the GIL in a C function; rank 1 waits for it in backward for 6.1 s",
        ranks=(0,),
    ),
)
ENDS = rank((), holds_gil=True, gil_never_free=True, native=("gc_collect_main (libpython3.11.so.1.0)",))
HEALTHY = (standstill(rank(), rank()), standstill(rank(), ENDS))
