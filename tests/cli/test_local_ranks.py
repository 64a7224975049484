"""A bare command starts its own ranks, and says how many."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpdoctor.cli.local_ranks import ranks_here
from ddpdoctor.errors import UsageError
from ddpdoctor.launch import ranks


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(("nproc", "said"), [(15, False), (16, True), (99, True), (257, False)])
def test_ranks_that_crowd_the_cores_are_announced_before_they_start(
    nproc: int, said: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    assert ranks_here(nproc) == nproc
    assert (f"{nproc} ranks share 2 usable cores: they take turns even to start" in capsys.readouterr().err) is said


def test_a_number_that_was_given_is_kept_without_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    assert ranks_here(3) == 3
    assert capsys.readouterr().err == ""


def test_without_one_the_default_is_said_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranks, "default_nproc", lambda: 2)
    assert ranks_here(None) == 2
    assert capsys.readouterr().err == "ddpdoctor: no launcher and no --nproc: starting 2 ranks on this host\n"


def test_a_launcher_has_decided(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("RANK", "0"), ("WORLD_SIZE", "2"), ("LOCAL_RANK", "0")):
        monkeypatch.setenv(name, value)
    assert ranks_here(None) is None
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("devices", "visible", "expected"),
    [([], None, 2), (["nvidia0", "nvidia1", "nvidiactl"], None, 2), ([f"nvidia{n}" for n in range(8)], None, 8),
     ([f"nvidia{n}" for n in range(8)], "0,3", 2), (["nvidia0"], "", 2), (["nvidia0"], None, 1)],
)  # fmt: skip
def test_one_rank_per_visible_gpu_or_two(
    devices: list[str], visible: str | None, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "glob", lambda _self, _pattern: [Path("/dev") / name for name in devices])
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert ranks.default_nproc() == expected


def test_a_python_without_torch_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(UsageError, match="needs PyTorch") as raised:
        ranks.require_torch()
    assert raised.value.hint is not None
    assert "pip install 'ddpdoctor[torch]'" in raised.value.hint
