"""Checkpoints of ranks compared: what differs to the element, in every format, and what is left alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed.checkpoint.metadata import _MEM_FORMAT_ENCODING

from ddpdoctor.checkpoints.compare import compare_checkpoints
from ddpdoctor.engine import diagnose
from ddpdoctor.errors import UsageError
from ddpdoctor.model import Finding, Severity
from tests.checkpoints.writing import contents, write_dcp, write_pt, write_safetensors
from tests.waiting import PROGRAM_SECONDS

Writer = Callable[..., Path]
FORMATS = {".pt": write_pt, ".safetensors": write_safetensors, "": write_dcp}


def judged(*paths: Path, tolerance: float = 0.0) -> tuple[list[Finding], str]:
    evidence = compare_checkpoints(paths, tolerance=tolerance)
    return list(diagnose(evidence).findings), "\n".join(evidence.notes)


def test_a_table_of_contents_whose_enums_python_3_11_2_has_pickled_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: it pickles them as `getattr(class, name)`, and the checkpoint was refused as code."""
    monkeypatch.setattr(
        _MEM_FORMAT_ENCODING, "__reduce_ex__", lambda self, _protocol: (getattr, (type(self), self.name))
    )
    files = [write_dcp(tmp_path / f"rank{rank}", bump=1e-3 * (rank == 1)) for rank in range(3)]
    assert b"getattr" in (files[0] / ".metadata").read_bytes()
    (finding,), _ = judged(*files)
    assert finding.ranks == (1,)


@pytest.mark.parametrize("suffix", FORMATS, ids=["pt", "safetensors", "dcp"])
def test_the_odd_file_is_named_to_the_element(tmp_path: Path, suffix: str) -> None:
    write = FORMATS[suffix]
    files = [write(tmp_path / f"rank{rank}{suffix}", bump=1e-3 * (rank == 1)) for rank in range(3)]

    (finding,), notes = judged(*files)

    assert (finding.code, finding.ranks) == ("DDP519", (1,))
    assert finding.message == "0.weight[5, 2] is 0.05982 on ranks 0,2 and 0.06082 on rank 1, a difference of 0.001"
    assert finding.details == (f"rank 1 is {files[1]}",)
    assert finding.measured["extent"] == "1 of 128 elements"
    assert "from the file names" in notes


def test_equal_files_of_different_formats_get_silence(tmp_path: Path) -> None:
    findings, notes = judged(
        write_pt(tmp_path / "a.pt"), write_safetensors(tmp_path / "b.safetensors"), write_dcp(tmp_path / "c")
    )
    assert findings == []
    assert "optimizer state not compared: only in" in notes
    assert "rank numbers follow the order of the files: rank 0 is" in notes


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "module._orig_mod."])
def test_a_wrapper_prefix_is_left_out_and_said(tmp_path: Path, prefix: str) -> None:
    bare, wrapped = write_pt(tmp_path / "rank0.pt"), write_pt(tmp_path / "rank1.pt", prefix=prefix)
    findings, notes = judged(bare, wrapped)
    assert findings == []
    for part in prefix.replace(".", ". ").split():
        assert f"without the prefix {part} that they have in {wrapped}" in notes


def test_optimizer_state_is_compared(tmp_path: Path) -> None:
    files = [write_pt(tmp_path / f"rank{rank}.pt", momentum=0.5 * (rank == 2)) for rank in range(3)]
    (finding,), _ = judged(*files)
    assert finding.ranks == (2,)
    assert finding.message.startswith("2.bias: optimizer.state[5].exp_avg[3] is ")
    assert finding.severity is Severity.FAIL


def test_state_of_an_unknown_parameter_keeps_its_number(tmp_path: Path) -> None:
    """The optimizer has one of two parameters: the number alone does not tell which."""
    for rank in range(2):
        state = {"state": {0: {"exp_avg": torch.full((2,), float(rank))}}, "param_groups": [{"lr": 0.1, "params": [0]}]}
        model = {"a": torch.zeros(2), "b": torch.zeros(2)}
        torch.save({"model": model, "optimizer": state}, tmp_path / f"rank{rank}.pt")
    (finding,), _ = judged(tmp_path / "rank0.pt", tmp_path / "rank1.pt")
    assert finding.message.startswith("optimizer.state[0].exp_avg[0] is 0 on rank 0 and 1 on rank 1")


def test_a_learning_rate_that_differs_is_told_with_its_values(tmp_path: Path) -> None:
    files = []
    for rank in range(3):
        saved = contents()
        saved["optimizer"]["param_groups"][0]["lr"] = 0.1 if rank == 0 else 0.05
        files.append(tmp_path / f"rank{rank}.pt")
        torch.save(saved, files[-1])
    (finding,), _ = judged(*files)
    assert finding.message == "optimizer.param_groups[0].lr is 0.05 on ranks 1-2 and 0.1 on rank 0"


def test_statistics_of_batchnorm_and_random_states_are_each_ranks_own(tmp_path: Path) -> None:
    files = []
    for rank in range(2):
        saved = contents(statistics=float(rank))
        saved |= {"rng_state": torch.full((8,), rank, dtype=torch.uint8), "epoch": rank}
        files.append(tmp_path / f"rank{rank}.pt")
        torch.save(saved, files[-1])
    (finding,), notes = judged(*files)
    assert finding.severity is Severity.INFO
    assert finding.message.startswith("1.running_mean[")
    assert "not compared, because each rank may have its own: rng_state" in notes
    assert "also different, beside model and optimizer: epoch (0 on rank 0 and 1 on rank 1)" in notes


OTHER = {
    "presence": ({"c": torch.zeros(2)}, "parameter b is present on ranks 0-1 and absent on rank 2; 2 entries differ"),
    "dtype": ({"b": torch.zeros(2).double()}, "parameter b has dtype float32 on ranks 0-1 and float64 on rank 2"),
    "shape": ({"b": torch.zeros(3)}, "parameter b has shape [2] on ranks 0-1 and [3] on rank 2"),
}


@pytest.mark.parametrize("aspect", OTHER)
def test_another_model_is_a_finding_of_its_own(tmp_path: Path, aspect: str) -> None:
    other, said = OTHER[aspect]
    for rank in range(3):
        torch.save({"a": torch.zeros(2), **({"b": torch.zeros(2)} if rank < 2 else other)}, tmp_path / f"rank{rank}.pt")
    (finding,), _ = judged(*(tmp_path / f"rank{rank}.pt" for rank in range(3)))
    assert finding.message.startswith(said)
    assert finding.ranks == (2,)
    assert "other" in finding.remedy or "different" in finding.remedy


def test_another_order_of_names_is_told(tmp_path: Path) -> None:
    a, b = torch.zeros(2), torch.ones(2)
    torch.save({"a": a, "b": b}, tmp_path / "rank0.pt")
    torch.save({"b": b, "a": a}, tmp_path / "rank1.pt")
    (finding,), _ = judged(tmp_path / "rank0.pt", tmp_path / "rank1.pt")
    assert "in a different order: a at position 0 on rank 0 and b at position 0 on rank 1" in finding.message


NAN = torch.tensor([0x7FC00000, 0x7FC00001], dtype=torch.int32).view(torch.float32)
ONLY_BITS = {
    "sign of zero": (torch.tensor(0.0), torch.tensor(-0.0)),
    "NaN payload": (NAN[0].clone(), NAN[1].clone()),
}


@pytest.mark.parametrize("kind", ONLY_BITS)
def test_what_arithmetic_cannot_tell_apart_is_called_that(tmp_path: Path, kind: str) -> None:
    for rank, value in enumerate(ONLY_BITS[kind]):
        torch.save({"w": torch.stack([torch.tensor(1.0), value])}, tmp_path / f"rank{rank}.pt")
    files = tmp_path / "rank0.pt", tmp_path / "rank1.pt"
    (finding,), _ = judged(*files)
    assert f"only the {kind} differs" in finding.message
    assert judged(*files, tolerance=1e-9)[0] == []


def test_differences_within_the_tolerance_are_counted_and_not_reported(tmp_path: Path) -> None:
    files = [write_pt(tmp_path / f"rank{rank}.pt", bump=1e-5 * rank, momentum=0.1 * rank) for rank in range(2)]
    (finding,), notes = judged(*files, tolerance=1e-4)
    assert finding.message.startswith("2.bias: optimizer.state[5].exp_avg[3]")
    assert "within the tolerance of 0.0001: 1 (largest difference 1e-05)" in notes
    assert judged(*files, tolerance=0.2)[0] == []


def test_memory_layout_is_no_difference(tmp_path: Path) -> None:
    image = torch.arange(24.0).view(1, 2, 3, 4)
    torch.save({"w": image}, tmp_path / "rank0.pt")
    torch.save({"w": image.to(memory_format=torch.channels_last)}, tmp_path / "rank1.pt")
    assert judged(tmp_path / "rank0.pt", tmp_path / "rank1.pt")[0] == []


def test_a_file_that_cannot_be_read_is_named_and_the_others_are_compared(tmp_path: Path) -> None:
    files = [write_pt(tmp_path / f"rank{rank}.pt") for rank in range(3)]
    files[1].write_bytes(files[1].read_bytes()[:3000])
    evidence = compare_checkpoints(files)
    report = diagnose(evidence)
    assert report.findings == ()
    assert f"{files[1]} is truncated or damaged" in evidence.undecided[0]
    assert report.exit_code(Severity.FAIL) == 3


def test_one_file_has_nothing_to_be_compared_with(tmp_path: Path) -> None:
    file = write_pt(tmp_path / "rank0.pt")
    with pytest.raises(UsageError, match="is one checkpoint"):
        compare_checkpoints([file])
    with pytest.raises(UsageError, match="is given twice"):
        compare_checkpoints([file, tmp_path / "." / "rank0.pt"])


NAMES = {
    ("rank3.pt", "rank1.pt"): [1, 3],
    ("step7/rank_03/model.pt", "step7/rank_11/model.pt"): [3, 11],
    ("model-rank0.pt", "model-rank-2.pt"): [0, 2],
    ("frank1.pt", "frank7.pt"): [0, 1],
    ("rank1.pt", "copy/rank1.pt"): [0, 1],
}


@pytest.mark.parametrize("names", NAMES, ids=" ".join)
def test_ranks_come_from_names_else_from_the_order(names: tuple[str, ...]) -> None:
    from ddpdoctor.checkpoints.ranks import by_rank

    files, _ = by_rank([Path(name) for name in names])
    assert list(files) == NAMES[names]


def saved_model(rank: int) -> dict[str, Any]:
    return {"w": torch.full((1 << 21,), float(rank == 1))}


def test_memory_does_not_grow_with_the_number_of_files(tmp_path: Path) -> None:
    """Nine files of 8 MiB, one odd: no more than a few of them are ever in memory."""
    import subprocess
    import sys

    files = []
    for rank in range(9):
        files.append(str(tmp_path / f"rank{rank}.pt"))
        torch.save(saved_model(rank), files[-1])
    program = (
        "import resource, sys; from pathlib import Path\n"
        "from ddpdoctor.checkpoints.compare import compare_checkpoints as compare\n"
        "def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "files = [Path(name) for name in sys.argv[1:]]\n"
        "compare(files[:2]); before = peak(); compare(files); print(peak() - before)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, *files], capture_output=True, text=True, timeout=PROGRAM_SECONDS, check=True
    )
    assert int(ended.stdout) < 2 * 8192, "KiB more for nine files than for two"
