"""A probe that hangs, dies or says nothing leaves a reason; a collector that fails leaves the others their say."""

from __future__ import annotations

import importlib
import os
import pkgutil
import threading
import time
from pathlib import Path

import pytest

import ddpdoctor.host
from ddpdoctor.evidence import Missing
from ddpdoctor.evidence.gpus import Gpus
from ddpdoctor.evidence.host import Host
from ddpdoctor.host import collect_all, host_access
from ddpdoctor.host.host_access import HostAccess


@pytest.fixture
def probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Puts a program in the place of a probe of ours."""

    def put(source: str) -> HostAccess:
        (tmp_path / "probe.py").write_text(source)
        monkeypatch.setattr(host_access, "our_file", lambda _folder, name: tmp_path / name)
        return HostAccess(environ={})

    return put


def test_a_probe_that_hangs_is_ended_and_named(probe) -> None:
    here = probe("import time; time.sleep(60)")
    start = time.monotonic()
    (missing,) = here.ask_probe("probe.py", Gpus, deadline_seconds=0.5, subject="NVML")
    assert missing == Missing(kind="Gpus", reason="NVML did not answer within 0.5 s")
    assert time.monotonic() - start < 30


def test_what_a_probe_said_before_it_hung_is_kept(probe) -> None:
    here = probe("""import time; print('{"Gpus": {"driver": "580.65.06"}}', flush=True); time.sleep(60)""")
    gpus, host = here.ask_probe("probe.py", Gpus, Host, deadline_seconds=3, subject="NVML")
    assert gpus == Gpus(driver="580.65.06")
    assert host == Missing(kind="Host", reason="NVML did not answer within 3 s")


def test_a_probe_that_dies_is_quoted(probe) -> None:
    here = probe("raise SystemExit('libnvidia-ml.so.1: wrong ELF class')")
    (missing,) = here.ask_probe("probe.py", Gpus, deadline_seconds=30, subject="NVML")
    assert missing.reason == "the process that queried NVML ended with code 1: libnvidia-ml.so.1: wrong ELF class"


def test_a_probes_own_reason_is_passed_on(probe) -> None:
    here = probe("""print('{"missing": {"Gpus": "no NVIDIA GPU"}}')""")
    (missing,) = here.ask_probe("probe.py", Gpus, deadline_seconds=30, subject="NVML")
    assert missing.reason == "no NVIDIA GPU"


def test_stopping_the_world_ends_its_programs_at_once(probe) -> None:
    here = probe("import time; time.sleep(60)")
    threading.Timer(0.2, here.stop.set).start()
    start = time.monotonic()
    here.ask_probe("probe.py", Gpus, deadline_seconds=60, subject="NVML")
    assert time.monotonic() - start < 30


def test_every_reader_of_the_host_is_asked() -> None:
    readers = {
        module.name
        for module in pkgutil.iter_modules(ddpdoctor.host.__path__)
        if module.name != "collect_all" and hasattr(importlib.import_module(f"ddpdoctor.host.{module.name}"), "collect")
    }
    assert readers == set(collect_all.COLLECTORS)


def test_a_collector_that_fails_is_a_note_and_the_others_are_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collect_all, "COLLECTORS", ("environment", "no_such_collector"))
    gathered = collect_all.collect(HostAccess(environ={"NCCL_DEBUG": "INFO"}))
    assert [type(fact).__name__ for fact in gathered.facts] == ["Environment"]
    (note,) = gathered.notes
    assert note.startswith("the collector 'no_such_collector' failed, which is a bug in ddpdoctor: ModuleNotFoundError")


@pytest.mark.timeout(30)
def test_a_device_and_a_pipe_are_no_small_files(tmp_path: Path) -> None:
    """`NCCL_CONF_FILE=/dev/zero` must not take all memory, and a pipe must not be waited for."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_text(" text\n")
    access = HostAccess(environ={})
    assert access.text("/dev/zero") is None
    assert access.text(str(tmp_path / "pipe")) is None
    assert access.text(str(tmp_path / "file")) == "text"
    assert access.text("/proc/self/stat")
