"""How many ranks a command starts on this host where nobody said it."""

from __future__ import annotations

from ddpdoctor.cli import output


def ranks_here(nproc: int | None) -> int | None:
    """`nproc` if it was given; None under a launcher; otherwise one rank per GPU, or 2, which stderr says in one line."""
    from ddpdoctor.launch.ranks import current_launch, default_nproc

    if nproc is not None or current_launch() is not None:
        return nproc
    ranks = default_nproc()
    output.say(f"no launcher and no --nproc: starting {ranks} ranks on this host")
    return ranks
