"""One rank of `ddpdoctor.notebook_launch`: calls the function, and leaves its result or its traceback as a file."""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path

import cloudpickle


def main(folder: Path) -> int:
    """Call the function of `folder`/call.pickle; what it raises is written to `folder` and goes on."""
    rank = int(os.environ["RANK"])
    try:
        function, arguments, named = cloudpickle.loads((folder / "call.pickle").read_bytes())
        result = function(*arguments, **named)
        if rank == 0:
            (folder / "result.pickle").write_bytes(cloudpickle.dumps(result))
    except BaseException as error:  # whatever the user's function raises is shown to the user
        if not isinstance(error, SystemExit) or error.code:
            (folder / f"rank{rank:05d}.txt").write_text(f"rank {rank}:\n{traceback.format_exc()}")
            raise  # the agent sees it, too
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
