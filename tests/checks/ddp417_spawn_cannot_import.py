"""A function inside a function, one typed into a notebook, a script without its guard."""

from ddpdoctor.evidence.ranks import RankError
from tests.checks import Sick
from tests.rank_ends import FINE, ended, logged

SICK = (
    Sick(
        evidence=logged(RankError(type="AttributeError", message="Can't pickle local object 'main.<locals>.f'")),
        says="spawned processes cannot import f: it is defined inside a function",
    ),
    Sick(
        evidence=logged(
            RankError(type="AttributeError", message="Can't get attribute 'f' on <module '__main__' (built-in)>")
        ),
        says="spawned processes cannot find f in __main__: it was typed in, not imported from a file",
    ),
    Sick(
        evidence=logged(said=('To fix this issue, refer to the "Safe importing of main module" section in ...',)),
        says="spawned processes import the script and start processes again: its start is not under "
        "`if __name__ == '__main__':`",
    ),
)
HEALTHY = (ended(FINE, FINE),)
