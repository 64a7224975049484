"""Each fault gets exactly its code, its culprits and its line; the full matrix of ranks takes hours (`make matrix`)."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from ddpdoctor.catalogue import all_rules
from tests.ward.cases import CASES, FAULTS, Case, middle
from tests.ward.jobs import Watched, is_root, torchrun, watch

SIDE_BY_SIDE = 2  # most of a job's time is spent waiting for the stall, so two share the cores well
QUICK = {  # one of each kind of evidence; every rank of three and both of two have their turn, four ranks where two groups wait
    "DDP301": (3, 1),
    "DDP305-barrier": (3, 2),
    "DDP306-wait": (3, 0),
    "DDP307-lock": (3, 2),
    "DDP309-breakpoint": (2, 1),
    "DDP311": (2, 0),
    "DDP312": (4, 3),
    "DDP315-only": (3, 0),
    "DDP318": (2, 0),
}
WITHOUT_RANKS_OF_A_CPU = {  # they need GPUs, are a timeout that no better cause explains, or are told by a log alone
    "DDP319", "DDP407", "DDP408", "DDP415", "DDP418", "DDP419", "DDP420", "DDP421", "DDP422", "DDP423", "DDP424", "DDP425",
    "DDP426",
}  # fmt: skip
QUICK_ON_GPUS = {
    "DDP307-sleep": (2, 1)
}  # by the stand-in; what a rank on a GPU shows differs from gloo in every fault alike
MATRIX = [
    pytest.param(
        case,
        nproc,
        culprit,
        style,
        id=f"{case.name}-rank-{culprit}-of-{nproc}" + ("" if style == "gloo" else f"-{style}"),
    )
    for case in CASES
    for style in case.styles
    for nproc, culprits in ((4, (0, middle(4), 3)), (2, (0, 1)))
    for culprit in culprits
]


@pytest.fixture(scope="module")
def round_of_the_ward(request: pytest.FixtureRequest) -> Iterator[dict[str, Future[Watched]]]:
    """The quick cases that were selected, under way side by side."""
    wanted = [case for case in CASES if any(f"[{case.name}]" in item.name for item in request.session.items)]
    pool = ThreadPoolExecutor(SIDE_BY_SIDE)
    try:
        yield {case.name: pool.submit(examine, case, *QUICK[case.name]) for case in wanted if case.name in QUICK}
    finally:
        pool.shutdown(cancel_futures=True)


def examine(case: Case, nproc: int, culprit: int, style: str = "gloo") -> Watched:
    return watch(torchrun(case.program, nproc, case.arguments(culprit)), culprit=culprit, style=style)


def judge(case: Case, nproc: int, culprit: int, watched: Watched) -> None:
    assert not case.wrongs(watched.report, culprit, nproc), watched.transcript
    assert watched.ended.code == 1, watched.transcript


@pytest.mark.parametrize("case", [case for case in CASES if case.name in QUICK], ids=lambda case: case.name)
def test_the_fault_is_named(case: Case, round_of_the_ward: dict[str, Future[Watched]]) -> None:
    judge(case, *QUICK[case.name], round_of_the_ward[case.name].result())


@pytest.mark.parametrize("case", [case for case in CASES if case.name in QUICK_ON_GPUS], ids=lambda case: case.name)
def test_the_fault_is_named_where_ranks_spin(case: Case) -> None:
    nproc, culprit = QUICK_ON_GPUS[case.name]
    judge(case, nproc, culprit, examine(case, nproc, culprit, "gpu"))


@pytest.mark.matrix
@pytest.mark.parametrize(("case", "nproc", "culprit", "style"), MATRIX)
def test_the_fault_is_named_whoever_has_it(case: Case, nproc: int, culprit: int, style: str) -> None:
    if case.needs_root and not is_root():
        pytest.skip("this fault needs root")
    judge(case, nproc, culprit, examine(case, nproc, culprit, style))


def test_every_hang_and_crash_that_a_cpu_can_show_has_its_fault() -> None:
    codes = {rule.code for rule in all_rules() if rule.code.startswith(("DDP3", "DDP4"))}
    assert codes - set(FAULTS) <= WITHOUT_RANKS_OF_A_CPU
    assert {case.code for case in CASES} == {code for code in FAULTS if code.startswith(("DDP3", "DDP4"))}
    assert set(QUICK) <= {case.name for case in CASES}
