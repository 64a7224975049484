"""The little of ours that lives inside a user's ranks.

`on_path/` is put first on `PYTHONPATH` and holds nothing but a `sitecustomize`; `inside/` is what that loads: standard
library only, so that it runs in the user's Python whether ddpdoctor is installed there or not. In a process that never
initialises a process group it costs one finder on `sys.meta_path`; in a rank it switches on the features named in
`DDPDOCTOR_AGENT`. It never raises into the job: what fails is given up and written down (see `given_up`).
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from ddpdoctor.agent.inside.schema.rank_end import GaveUp
from ddpdoctor.grouping import grouped

ON_PATH = Path(__file__).with_name("on_path")
FEATURES = "DDPDOCTOR_AGENT"
DIRECTORY = "DDPDOCTOR_AGENT_DIR"


def job_environment(features: Iterable[str], directory: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables to add to a job's environment so that its ranks run `features` and write below `directory`.

    `features` name modules of `ddpdoctor/agent/inside/`. `directory` must exist and be ours alone (mode 0700): the ranks
    put Unix sockets there, so its path must be short (107 bytes with the file's name).
    """
    path = environ.get("PYTHONPATH")
    return {
        "PYTHONPATH": f"{ON_PATH}{os.pathsep}{path}" if path else str(ON_PATH),
        FEATURES: ",".join(features),
        DIRECTORY: str(directory),
    }


def given_up(directory: Path) -> tuple[str, ...]:
    """What the agents in `directory` could not do, one sentence each; the same sentence of several ranks once."""
    ranks_by_reason = grouped((f"{entry.what}: {entry.why}", str(entry.rank)) for entry in _entries(directory))
    return tuple(
        f"the agent gave up on {reason} (rank {', '.join(dict.fromkeys(ranks))})"
        for reason, ranks in ranks_by_reason.items()
    )


def gave_up(what: str, directory: Path) -> frozenset[str]:
    """The ranks, as text, whose agents in `directory` gave up on `what`."""
    return frozenset(str(entry.rank) for entry in _entries(directory) if entry.what == what)


def _entries(directory: Path) -> Iterator[GaveUp]:
    for file in sorted(directory.glob("*.gave-up")):
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
            with contextlib.suppress(ValueError, TypeError):  # a rank may die in the middle of a line
                yield GaveUp(*json.loads(line))
