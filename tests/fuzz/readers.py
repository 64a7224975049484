"""Readers that no command line reaches with a file alone: `@NAME` in the place of a command. Each shows what it found.

What a reader raises beside the errors that its callers expect is a defect, as it is of a command.
"""

from __future__ import annotations

import os
import socket
import subprocess
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest import mock

from ddpdoctor.cli import output
from ddpdoctor.errors import DdpdoctorError
from ddpdoctor.evidence import Evidence, Missing, RankFacts
from tests.fuzz.message_inputs import environ_of

MOST_WORD = 100_000  # bytes of one argument: the kernel takes 128 KiB with its end
ANSWER_SECONDS = 1.0  # that a listener is waited for: what it says is there at once


def read(arguments: list[str]) -> int:
    """Run one reader in the working directory: 1 where it found something, 2 where it refused its input, 4 for a defect."""
    name, *others = arguments
    try:
        READERS[name](*others)
    except DdpdoctorError as error:
        output.complain(error.message, error.details, error.hint)
        return error.exit_code
    except Exception:  # noqa: BLE001 - any is a defect, which is shown
        traceback.print_exc()
        return 4
    return 1


def judged(evidence: Evidence) -> None:
    """Show what the rules find."""
    from ddpdoctor.engine import diagnose
    from ddpdoctor.redaction import redact
    from ddpdoctor.render import text

    output.show(text.render(diagnose(redact(evidence)), verbose=True))


def node() -> None:
    """A node that reads the store: introductions, and answers of every type."""
    from ddpdoctor.net.group_answers import GroupAnswer, GroupAnswers, NcclAnswer, groups_of, tries_of
    from ddpdoctor.net.introductions import Introductions
    from ddpdoctor.net.store_mailbox import Messages

    class OneMessage:
        """A store that holds one message, under every key."""

        def set(self, key: str, value: str, /) -> None:
            pass

        def get(self, key: str, /) -> bytes:
            return Path("message").read_bytes()

        def add(self, key: str, amount: int, /) -> int:
            return 0

        def check(self, keys: list[str], /) -> bool:
            return True

    messages = Messages(OneMessage(), "p")
    came = Introductions(messages, 2)
    known = [*came.look(1), *came.look(2)]
    answers = GroupAnswers(messages, came.left_out)
    found: list[Any] = [
        answers.of((0, 1), "x", tuple[GroupAnswer, ...], until=0.0),
        answers.of((0, 1), "y", NcclAnswer, until=0.0),
    ]
    groups_of((0, 1), found[0])
    tries_of(found[1])
    for line in (*(one.called for one in known), *came.left_out.values()):
        output.say(line)


def rank() -> None:
    """Rank 0, to which the others tell facts and files."""
    from ddpdoctor.transport.bundle import Bundle, BundleError
    from ddpdoctor.transport.facts import FactsError, FactsReader
    from ddpdoctor.transport.files import write_files
    from ddpdoctor.transport.host_relay import _framed, _Inbox

    data = Path("message").read_bytes()
    with suppress(BundleError):
        list(_Inbox().feed(data))
    (message,) = _Inbox().feed(_framed(data))
    try:
        bundle = Bundle.decode(message)
    except BundleError as error:
        output.say(str(error))
        return
    reader, facts, missing = FactsReader(bundle), list[RankFacts](), list[Missing]()
    for who in bundle.accounts:
        try:
            facts.append(reader.facts(who))
            missing += reader.missing(who)
            output.say("\n".join(reader.notes(who)))
        except FactsError as error:  # noqa: PERF203 - one lies, the others are heard
            output.say(f"{who.host}: {error}")
    Path("files").mkdir()
    write_files(bundle, Path("files"), 4)
    if {*Path().iterdir()} - {Path(name) for name in ("message", "files", ".output")} or {*Path("..").iterdir()} != {
        Path("../b")
    }:
        raise AssertionError("a file was written elsewhere")
    judged(Evidence(launched=True, ranks=tuple(facts), missing=tuple(missing)))


def listener() -> None:
    """Whoever asks a rank's sockets, and NCCL's port."""
    from ddpdoctor.ranks import nccl_ras
    from ddpdoctor.ranks.agent_client import NoAnswer, ask_agent, ask_worker_server

    answer = Path("message").read_bytes()
    with answering(answer) as path:
        for ask in (ask_agent, lambda path, **given: ask_worker_server(path, "x", **given)):
            try:
                output.say(f"{len(ask(path, deadline_seconds=ANSWER_SECONDS))} bytes")
            except NoAnswer as error:  # noqa: PERF203 - each may refuse
                output.say(str(error))
    for said in nccl_ras.complaints(answer.decode(errors="replace"), {4101: 0}, {"10.0.0.2"}):
        output.say(said)


@contextmanager
def answering(answer: bytes) -> Iterator[Path]:
    """A Unix socket that gives each of two callers this answer, and the end of it."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("s")  # in the working directory: a longer path may be too long
        server.listen()
        server.settimeout(ANSWER_SECONDS)

        def serve() -> None:
            for _ in range(2):
                with suppress(OSError), server.accept()[0] as caller:
                    caller.settimeout(ANSWER_SECONDS)
                    caller.recv(1 << 16)
                    caller.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield Path("s")
        thread.join()


def environment() -> None:
    """`env`, as far as it reads variables."""
    from ddpdoctor.host import env_var_catalog, environment, launcher
    from ddpdoctor.host.host_access import HostAccess

    access = HostAccess(environ=environ_of(Path(".environ").read_bytes()), by_hand=False)
    found = [fact for module in (environment, launcher, env_var_catalog) for fact in module.collect(access)]
    facts = tuple(fact for fact in found if not isinstance(fact, Missing))
    missing = tuple(fact for fact in found if isinstance(fact, Missing))
    judged(Evidence(ranks=(RankFacts(rank=0, host="a", facts=facts),), missing=missing))


def process() -> None:
    """`hang`, as far as it reads what a process says of itself."""
    from ddpdoctor.host import processes, running_jobs
    from ddpdoctor.ranks import own_dumps

    said = ["python3", *(os.fsdecode(word[:MOST_WORD]) for word in Path("argv").read_bytes().split(b"\n"))]
    environ = environ_of(Path(".environ").read_bytes())
    script = "read line; exit; " + "#" * 10  # the shell waits for the end of its input
    with subprocess.Popen(
        ["python3", "-c", script, *said[1:]], executable="/bin/sh", stdin=subprocess.PIPE, env=environ
    ) as one:
        try:
            with mock.patch.object(processes, "all_pids", return_value=[one.pid, os.getpid()]):
                jobs = running_jobs.find_jobs().jobs
            for job in jobs:
                output.say(f"{job.name}: {job.summary}")
                own_dumps.request(job.targets, job.environ)
                with mock.patch.object(own_dumps, "WAIT_SECONDS", 0.0):
                    list(own_dumps.collect(job.targets, job.environ, own_dumps.Requests(at={})))
        finally:
            one.kill()


def comparison(file: str) -> None:
    """`allreduce-bench --compare`, with the same run as the one that was measured."""
    from ddpdoctor.workflows.benchmark import load_bench

    earlier = load_bench(Path(file))
    judged(Evidence(job=(earlier.bench, earlier)))


READERS: Mapping[str, Callable[..., None]] = {
    "@node": node, "@rank": rank, "@listener": listener, "@environment": environment, "@process": process,
    "@comparison": comparison,
}  # fmt: skip
