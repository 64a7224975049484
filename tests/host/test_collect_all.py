"""The readers of host, environment and interpreter, over a file system made for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpdoctor.host import environment, machine, packages
from ddpdoctor.host.host_access import HostAccess


def test_a_host_is_read_from_its_files(tmp_path: Path) -> None:
    for name, text in {
        "proc/meminfo": "MemTotal:       16384 kB\nMemFree: 1 kB\n",
        "proc/cpuinfo": "processor : 0\nmodel name\t: Some CPU @ 2.0GHz\n",
        "proc/sys/kernel/random/boot_id": "06058ed6-4a79\n",
        "etc/os-release": 'NAME="Ubuntu"\nPRETTY_NAME="Ubuntu 24.04.2 LTS"\n',
        "dev/nvidia10": "",
        "dev/nvidia2": "",
        "dev/nvidiactl": "",
        "dev/nvidia-uvm": "",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (read,) = machine.collect(HostAccess(environ={}, root=tmp_path))
    assert read.os == "Ubuntu 24.04.2 LTS"
    assert read.cpu_model == "Some CPU @ 2.0GHz"
    assert read.memory_bytes == 16384 * 1024
    assert read.boot_id == "06058ed6-4a79"
    assert read.nvidia_devices == ("/dev/nvidia2", "/dev/nvidia10")


def test_what_cannot_be_read_is_none(tmp_path: Path) -> None:
    (read,) = machine.collect(HostAccess(environ={}, root=tmp_path))
    assert (read.os, read.cpu_model, read.memory_bytes, read.boot_id) == (None, None, None, None)
    assert read.nvidia_devices == ()


@pytest.mark.parametrize("name", ["NCCL_DEBUG", "RANK", "SLURM_PROCID", "LD_PRELOAD", "OMP_NUM_THREADS", "MASTER_ADDR"])
def test_variables_that_bear_on_a_job_are_kept(name: str) -> None:
    (kept,) = environment.collect(HostAccess(environ={name: "x"}))
    assert kept.variables == {name: "x"}


@pytest.mark.parametrize(
    "name", ["HF_TOKEN", "WANDB_API_KEY", "PATH", "HOME", "TORCH_HUB_TOKEN", "CUDA_SECRET", "AWS_KEY"]
)
def test_secrets_and_strangers_are_never_read(name: str) -> None:
    (kept,) = environment.collect(HostAccess(environ={name: "hunter2"}))
    assert kept.variables == {}


def test_the_interpreter_and_its_torch_are_named() -> None:
    (install,) = packages.collect(HostAccess(environ={}))
    assert install.version.startswith("3.")
    assert "torch" in install.packages
