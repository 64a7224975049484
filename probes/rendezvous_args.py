"""What every probe is told that meets the other ranks in a store: `Meeting.arguments` of ddpdoctor/launch/rendezvous.py."""

from __future__ import annotations

import argparse


def meeting_options(description: str | None) -> argparse.ArgumentParser:
    """A parser that knows who this rank is and where the ranks meet."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--world-size", type=int, required=True)
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--hosted", action="store_true", help="the launcher's agent serves the store")
    parser.add_argument(
        "--deadline", type=float, required=True, help="seconds to wait for others, from when this rank is ready"
    )
    return parser


def first_line(error: BaseException) -> str:
    """The error's own first line, without torch's C++ stack."""
    return str(error).partition("\n")[0].partition(" Exception raised from")[0]
