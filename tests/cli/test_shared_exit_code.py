"""Both agents of a torchrun end with the code of rank 0: one whose ranks ended with 0 would wait five minutes, and say 0."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.two_nodes import two_nodes

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("command", ["env", "net"])
def test_a_finding_is_the_end_of_both(command: str, tmp_path: Path) -> None:
    ended = two_nodes(tmp_path, command, "--select", "DDP210", nproc=1, GLOO_SOCKET_IFNAME="ib7")
    assert [code for code, _, _ in ended] == [1, 1], ended
    assert sum("DDP210" in out for _, out, _ in ended) == 1


def test_an_error_of_rank_0_alone_is_the_end_of_both(tmp_path: Path) -> None:
    bench = ("allreduce-bench", "--sizes", "1K", "--iters", "5", "--save", "/proc/no/such")
    ended = two_nodes(tmp_path, *bench, nproc=1)
    assert [code for code, _, _ in ended] == [1, 1], ended  # torchrun's own code for ranks that failed
    assert sum(err.count("/proc/no/such") > 0 for _, _, err in ended) == 1
