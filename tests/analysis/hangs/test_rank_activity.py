"""Who keeps the GIL, and which rank has left a line behind for good between two looks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ddpdoctor.analysis.hangs.rank_activity import Activities
from ddpdoctor.analysis.hangs.stack_patterns import Activity
from ddpdoctor.derivation import derived
from ddpdoctor.engine import diagnose
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.process import ChildProcess
from ddpdoctor.evidence.source import CodePlace, EarlierCall, Loop, SourceCode
from tests.hangs import C10D, MODULE, SCRIPT, TORCH, hang, rank, stack

OWN = stack(user=(70, "checksum"))
HELD: dict[str, Any] = {"holds_gil": True, "gil_never_free": True, "active": True}


@pytest.mark.parametrize(
    ("said", "accused"),
    [
        (rank(OWN, **HELD, state="R", cpu_share=0.98), True),
        (rank(OWN, **HELD, state="S", cpu_share=0.0), True),
        (rank(OWN, **HELD, state="R", cpu_share=0.05), False),
        (rank((), **HELD, native=("gc_collect_main (libpython3.11.so)",)), False),
    ],
    ids=["computes", "sleeps in C", "gets no CPU", "interpreter shuts down"],
)
def test_who_keeps_the_gil(said: tuple[Any, ...], accused: bool) -> None:
    codes = [found.code for found in diagnose(hang(said, rank())).findings]
    assert ("DDP311" in codes) is accused, codes


EPOCHS, BATCHES = Loop(line=30, head="for epoch in range(3)"), Loop(line=33, head="for batch in loader")


def at(line: int, *loops: Loop, function: str = "main") -> CodePlace:
    return CodePlace(file=SCRIPT, line=line, function=function, loops=loops)


@pytest.mark.parametrize(
    ("places", "advanced"),
    [
        ((at(20), at(25)), True),
        ((at(20), at(34, EPOCHS, BATCHES)), True),
        ((at(34, EPOCHS, BATCHES), at(35, EPOCHS, BATCHES)), False),  # it may turn in circles
        ((at(34, EPOCHS, BATCHES), at(40, EPOCHS)), False),
        ((at(20), at(20)), False),
        ((at(20), at(25, function="other")), False),
    ],
    ids=["next line", "into its loop", "in its loop", "in an outer loop", "same line", "another function"],
)
def test_a_rank_has_advanced_where_no_loop_leads_back(places: tuple[CodePlace, CodePlace], advanced: bool) -> None:
    stacks, state = rank(stack(user=(25, "main")), moved=True, active=True, cpu_share=0.1)
    ways = tuple((Frame(file=SCRIPT, line=one.line, function=one.function), MODULE) for one in places)
    code = SourceCode(places=(*dict.fromkeys((*places, at(MODULE.line, function="<module>"))),))
    evidence = hang((replace(stacks, seen=ways), state), rank(), facts=(code,))
    activities = derived(evidence, Activities)
    assert activities is not None
    assert activities.each[0].advanced is advanced


DEFINES = stack(
    (C10D, 1, "<module>"),
    ("<frozen importlib._bootstrap>", 1176, "_find_and_load"),
)


@pytest.mark.parametrize("state", ["R", "S"])
def test_a_rank_that_defines_torchs_own_modules_waits_in_no_collective(state: str) -> None:
    activities = derived(hang(rank(DEFINES, active=True, state=state, cpu_share=0.04), rank()), Activities)
    assert activities is not None
    assert activities.each[0].kind is Activity.IMPORTING


def test_a_rank_that_waits_for_the_end_of_a_transfer_waits_for_its_peers() -> None:
    """The wait runs no line of PyTorch's: only the agent's own frame is above the user's."""
    ends = stack(("/venv/ddpdoctor/agent/inside/calls/collective_hooks.py", 142, "waited"), user=(8, "exchange"))
    activities = derived(hang(rank(ends, state="S", system_call="futex"), rank()), Activities)
    assert activities is not None
    assert (activities.each[0].kind, activities.each[0].operation) == (Activity.COLLECTIVE, "wait")


PACKAGES = "/venv/lib/python3.11/site-packages"


def by_import_of(file: str) -> tuple[Frame, ...]:
    """A rank whose script imports this module, which reads a table of its own meanwhile."""
    return stack(
        (f"{PACKAGES}/cycler/__init__.py", 262, "__iter__"),
        (f"{PACKAGES}/matplotlib/__init__.py", 782, "__setitem__"),
        (file, 241, "<module>"),
        ("<frozen importlib._bootstrap>", 241, "_call_with_frames_removed"),
        ("<frozen importlib._bootstrap>", 1176, "_find_and_load"),
    )


@pytest.mark.parametrize(
    ("file", "imports"), [(f"{PACKAGES}/matplotlib/style/__init__.py", True), ("/job/pipeline.py", False)]
)
def test_what_an_installed_module_does_as_it_is_imported_belongs_to_the_import(file: str, imports: bool) -> None:
    """Lightning imports matplotlib, which takes seconds; a module of the user's own may train as it is imported."""
    activities = derived(hang(rank(by_import_of(file), active=True, state="R", cpu_share=0.5), rank()), Activities)
    assert activities is not None
    assert (activities.each[0].kind is Activity.IMPORTING) is imports


IMPORTS = stack(("<frozen importlib._bootstrap>", 1176, "_find_and_load"))


@pytest.mark.parametrize(("seconds", "accused"), [(None, False), (60.0, True)], ids=["one look", "after a minute"])
def test_a_rank_that_imports_is_accused_only_where_the_job_stood_still(*, seconds: float | None, accused: bool) -> None:
    importing = rank(IMPORTS, active=True, state="R", cpu_share=0.5)
    found = diagnose(hang(importing, rank(), seconds=seconds)).findings
    assert [(finding.code, finding.ranks) for finding in found] == ([("DDP307", (0,))] if accused else [])


LOADS = rank(
    stack((f"{TORCH}/utils/data/dataloader.py", 1482, "_next_data"), user=(34, "train")),
    children=(
        ChildProcess(pid=4711, kind="data loader worker", state="R", command="python", cpu_share=0.9, stack=IMPORTS),
    ),
)


@pytest.mark.parametrize(("seconds", "accused"), [(None, False), (60.0, True)], ids=["one look", "after a minute"])
def test_a_rank_whose_loader_has_a_worker_that_imports_is_accused_as_late(
    *, seconds: float | None, accused: bool
) -> None:
    found = diagnose(hang(LOADS, rank(), seconds=seconds)).findings
    assert [(finding.code, finding.ranks) for finding in found] == ([("DDP308", (0,))] if accused else [])


ASLEEP = rank(stack(user=(70, "rest")), system_call="clock_nanosleep")


@pytest.mark.parametrize(
    ("waiting", "accused"),
    [
        ({"system_call": "futex", "wakes": 0}, True),
        ({"system_call": "futex", "wakes": 2}, False),  # the waits of two steps, at the same line
        ({"system_call": "clock_nanosleep", "wakes": 40}, True),  # one wait that polls
        ({"system_call": "futex"}, True),  # a case of an older version
    ],
    ids=["one wait", "waits of two steps", "polls", "not counted"],
)
def test_a_rank_that_woke_from_its_wait_shows_that_the_job_goes_on(*, waiting: dict[str, Any], accused: bool) -> None:
    found = diagnose(hang(rank(**waiting), ASLEEP, rank(**waiting), seconds=None)).findings
    assert [(finding.code, finding.ranks) for finding in found] == ([("DDP307", (1,))] if accused else [])


@pytest.mark.parametrize(
    ("collectives", "operation"),
    [((), "an asynchronous call"), ((EarlierCall(line=69, op="irecv"),), "irecv")],
    ids=["made elsewhere", "made above"],
)
def test_a_wait_without_a_frame_of_pythons_is_for_a_call_of_torch(
    collectives: tuple[EarlierCall, ...], operation: str
) -> None:
    code = SourceCode(places=(replace(at(70, function="rest"), calls=("request.wait",), collectives=collectives),))
    evidence = hang(rank(stack(user=(70, "rest")), system_call="futex"), rank(), seconds=None, facts=(code,))
    activities = derived(evidence, Activities)
    assert activities is not None
    assert (activities.each[0].kind, activities.each[0].operation) == (Activity.COLLECTIVE, operation)
    assert not diagnose(evidence).findings
