"""The flight recorder of a running rank, asked of its agent or of PyTorch's own server."""

from __future__ import annotations

import time
from dataclasses import dataclass

from ddpdoctor.agent.inside.process.recorder_socket import MISSING_GRADIENTS
from ddpdoctor.agent.inside.schema.missing_gradients import MissingGradients as MissingGradientsAnswer
from ddpdoctor.errors import UndecidedError
from ddpdoctor.evidence.ranks import MissingGradients
from ddpdoctor.evidence.recorder import FlightRecord
from ddpdoctor.ranks.agent_client import NoAnswer, ask_agent, ask_worker_server
from ddpdoctor.ranks.agent_files import RankProcess
from ddpdoctor.ranks.fr_dump_files import decode
from ddpdoctor.ranks.fr_parser import record_of
from ddpdoctor.ranks.json_records import read_json

ANSWER_SECONDS = 2.5  # a rank whose interpreter runs answers in milliseconds, on an overloaded machine in a second


@dataclass(frozen=True, slots=True)
class LiveDump:
    """What a running rank answered."""

    data: bytes
    """The raw flight recorder."""
    taken_at: float
    """When it was taken, in seconds since the epoch."""
    interpreter_answered: bool
    """False where only the C++ server answered."""
    missing_gradients: bytes = b""
    """What the agent says of parameters without a gradient."""


def dump_of(agent: RankProcess | None, *, stopped: bool) -> LiveDump | str:
    """The flight recorder, with stacks where the interpreter answers and without where only C++ does."""
    if agent is None:
        return "the job was started without ddpdoctor, and it wrote no dump of its own"
    if stopped:
        return "the process is stopped and does not answer"
    try:
        data, taken_at = (
            ask_agent(agent.file("ask"), deadline_seconds=ANSWER_SECONDS, owner=agent.owner),
            time.time(),
        )
        return LiveDump(data, taken_at, True, _missing_gradients(agent))
    except NoAnswer as no_answer:
        reason = str(no_answer)
    try:
        data = ask_worker_server(
            agent.file("sock"), "fr_trace_json", deadline_seconds=ANSWER_SECONDS, owner=agent.owner
        )
        return LiveDump(data, time.time(), False)
    except NoAnswer as no_answer:
        return f"the agent: {reason}; the worker server: {no_answer}"


def record_in(dump: LiveDump | str) -> FlightRecord | str:
    """The flight recorder, or why there is none."""
    if isinstance(dump, str):
        return dump
    try:
        return record_of(decode(dump.data), taken_at=dump.taken_at)
    except UndecidedError as error:
        return error.message


def gradients_in(dump: LiveDump | str) -> tuple[MissingGradients, ...]:
    """The parameters without a gradient, where the agent listed any."""
    found = read_json(MissingGradientsAnswer, dump.missing_gradients) if not isinstance(dump, str) else None
    return (MissingGradients(names=found.names, total=found.total),) if found is not None else ()


def _missing_gradients(agent: RankProcess) -> bytes:
    """What the agent says of parameters without a gradient; nothing where it is of a version that is not asked for them."""
    try:
        return ask_agent(agent.file("ask"), MISSING_GRADIENTS, deadline_seconds=ANSWER_SECONDS, owner=agent.owner)
    except NoAnswer:
        return b""
