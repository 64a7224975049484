"""A directory of ours is gone after us, however we and those who use it end."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from ddpdoctor.errors import DdpdoctorError
from ddpdoctor.launch.private_directory import REMOVER, private_directory
from tests.waiting import SECONDS, within

OWNER = """
import sys, time
from ddpdoctor.launch.private_directory import private_directory
with private_directory() as folder:
    (folder.path / "file").touch()
    print("ready", flush=True)
    time.sleep(600)
"""
OWNER_OF_A_GUARDED_PROGRAM = """
import sys
from ddpdoctor.launch.guarded_process import run
from ddpdoctor.launch.private_directory import private_directory
program = "import pathlib, sys, time, signal\\nsignal.signal(15, signal.SIG_IGN)\\nprint(1, file=sys.stderr)\\n" \\
    "while True: pathlib.Path(sys.argv[1], 'file').write_text('x'); time.sleep(0.01)"
with private_directory() as folder:
    print("ready", flush=True)
    run([sys.executable, "-c", program, str(folder.path)], deadline_seconds=600, folder=folder)
"""


def removers() -> list[psutil.Process]:
    """Those that run."""
    return [child for child in children_of(os.getpid()) if REMOVER in child.cmdline()]


def children_of(pid: int) -> list[psutil.Process]:
    """The processes that it started, once each shows its command line: it has none while it becomes another program."""
    children = psutil.Process(pid).children()
    assert within(lambda: all(child.status() == psutil.STATUS_ZOMBIE or child.cmdline() for child in children))
    return children


@contextlib.contextmanager
def started(owner: str, place: Path) -> Iterator[subprocess.Popen[str]]:
    """A program that has its directory in `place`."""
    with subprocess.Popen(
        [sys.executable, "-c", owner],
        env={**os.environ, "TMPDIR": str(place)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as us:
        try:
            assert us.stdout is not None
            assert us.stdout.readline() == "ready\n"
            yield us
        finally:
            us.kill()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    assert within(lambda: not list(tmp_path.iterdir()))


def test_it_is_private_and_goes_with_its_context_and_so_does_its_remover(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(place))
    with private_directory() as folder:
        assert folder.path.parent == place
        assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
        assert len(removers()) == 1
    assert not folder.path.exists()
    assert not removers()


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
def test_a_remover_that_is_stopped_or_killed_keeps_nobody_waiting(
    place: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(place))
    with private_directory():
        (remover,) = removers()
        remover.send_signal(number)
    assert not remover.is_running() or remover.status() == psutil.STATUS_ZOMBIE


@pytest.mark.parametrize(
    "owner", [OWNER, OWNER_OF_A_GUARDED_PROGRAM], ids=["alone", "with a program that writes there"]
)
def test_it_goes_where_its_owner_is_killed(place: Path, owner: str) -> None:
    with started(owner, place) as us:
        assert within(lambda: bool(list(place.glob("*/file"))))
        us.kill()


def test_it_stays_as_long_as_a_process_that_has_inherited_its_keepers(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(place))
    with private_directory() as folder:
        user = subprocess.Popen(["sleep", "600"], pass_fds=folder.keepers)
        (remover,) = removers()
    assert not remover.is_running()  # who removes it says so: the remover does not wait for the other process
    user.kill()
    user.wait()


def killed_with_its_remover(owner: str, place: Path) -> psutil.Process | None:
    """Start a program, kill what removes its directory, then the program; the other process that it started."""
    with started(owner, place) as us:
        children = {REMOVER in child.cmdline(): child for child in children_of(us.pid)}
        children[True].kill()  # which counts before it sees that its owner has ended
        us.kill()
    return children.get(False)


@pytest.fixture
def left(place: Path) -> Path:
    """The directory of a command that was killed, and before it the process that removes what it leaves."""
    killed_with_its_remover(OWNER, place)
    (path,) = place.iterdir()
    return path


def names_after_another_command(place: Path, monkeypatch: pytest.MonkeyPatch, *, seconds: float = -1.0) -> list[str]:
    """What is there after another directory was made and removed; a negative age makes every directory old."""
    monkeypatch.setattr("tempfile.tempdir", str(place))
    monkeypatch.setattr("ddpdoctor.launch.private_directory.LOCKED_SECONDS", seconds)
    with private_directory():
        pass
    return sorted(each.name for each in place.iterdir())


def test_the_next_command_removes_what_one_left_that_was_killed_with_its_remover(
    left: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (left / "file").exists()
    assert names_after_another_command(place, monkeypatch, seconds=600.0) == [left.name]  # it may be about to be locked
    assert names_after_another_command(place, monkeypatch) == []


def test_a_directory_stays_that_somebody_uses(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner, or a process that has inherited its keepers and outlives it and its remover."""
    monkeypatch.setattr("tempfile.tempdir", str(place))
    with private_directory() as folder:
        assert names_after_another_command(place, monkeypatch) == [folder.path.name]
    starts = "    import subprocess; subprocess.Popen(['sleep', '600'], stdout=2, pass_fds=folder.keepers)\n"
    user = killed_with_its_remover(OWNER.replace("    print(", f"{starts}    print("), place)
    assert user is not None
    (path,) = place.iterdir()
    assert names_after_another_command(place, monkeypatch) == [path.name]
    user.kill()
    assert within(lambda: not user.is_running() or user.status() == psutil.STATUS_ZOMBIE)
    assert names_after_another_command(place, monkeypatch) == []


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda left: left.chmod(0o755), id="of other permissions"),
        pytest.param(lambda left: left.parent.chmod(0o777), id="where others may rename it"),
        pytest.param(lambda left: left.rename(left.with_name("ddpdoctor-report")), id="of another name"),
        pytest.param(
            lambda left: (
                left.with_name("x").symlink_to(left.rename(left.with_name("y"))) or left.with_name("x").rename(left)
            ),
            id="behind a link",
        ),
    ],
)
def test_a_directory_stays_that_may_not_be_ours(
    change: Callable[[Path], None], left: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(left)
    before = sorted(each.name for each in place.iterdir())
    try:
        assert names_after_another_command(place, monkeypatch) == before
        assert len(list(place.rglob("file"))) == 1
    finally:
        place.chmod(0o700)
        for each in place.iterdir():
            each.unlink() if each.is_symlink() else shutil.rmtree(each)


@pytest.mark.parametrize("kernel", ["of another host\n", "", None], ids=["another", "empty", "none"])
def test_a_directory_of_another_kernel_stays(
    kernel: str | None,
    left: Path,
    place: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a shared file system its lock may be invisible here. Nothing is removed where the kernel does not tell its name."""
    file = tmp_path_factory.mktemp("kernel") / "boot_id"
    if kernel is not None:
        file.write_text(kernel)
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr("ddpdoctor.launch.boot_id.BOOT_ID", file)
        assert names_after_another_command(place, elsewhere) == [left.name]
    assert names_after_another_command(place, monkeypatch) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: a directory of another user")
def test_a_directory_of_another_user_stays(left: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.chown(left, 65534, 65534)
    assert names_after_another_command(place, monkeypatch) == [left.name]
    shutil.rmtree(left)


def test_a_million_names_beside_it_cost_no_command_its_time(
    left: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ddpdoctor.launch.private_directory.MOST_NAMES", 0)
    assert names_after_another_command(place, monkeypatch) == [left.name]
    shutil.rmtree(left)


@pytest.mark.parametrize("seconds", [0.05, 1.5], ids=["soon", "later"])
def test_what_a_process_writes_there_while_it_is_removed_does_not_stay(
    place: Path, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    """Each time that the directory is emptied, and once more: a program that outlives its command by a moment."""
    monkeypatch.setattr("tempfile.tempdir", str(place))
    until = time.monotonic() + seconds

    def leaves_a_file(path: Path, *, ignore_errors: bool) -> None:
        assert ignore_errors
        removes(path, ignore_errors=True)
        if time.monotonic() < until:
            path.mkdir()
            (path / "attendance.json").touch()

    removes = shutil.rmtree
    monkeypatch.setattr("ddpdoctor.launch.private_directory.shutil.rmtree", leaves_a_file)
    with private_directory():
        pass


def test_without_a_shell_it_is_made_all_the_same(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(place))

    def no_shell(*_arguments: object, **_named: object) -> None:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(subprocess, "Popen", no_shell)
    with private_directory() as folder:
        assert folder.path.is_dir()


def test_a_directory_that_cannot_be_made_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/proc/no-such-directory")
    with pytest.raises(DdpdoctorError, match="in /proc/no-such-directory: No such file"), private_directory():
        pass
    assert not removers()


def test_a_name_that_is_taken_is_left_alone_and_another_is_tried(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(place))
    monkeypatch.setattr("ddpdoctor.launch.private_directory.boot_id", lambda: None)
    names = iter(["taken", "free"])
    monkeypatch.setattr("secrets.token_hex", lambda _: next(names))
    (place / "ddpdoctor-taken").mkdir()
    (place / "ddpdoctor-taken" / "file").touch()
    with private_directory() as folder:
        assert folder.path.name == "ddpdoctor-free"
    assert (place / "ddpdoctor-taken" / "file").exists()
    monkeypatch.setattr("secrets.token_hex", lambda _: "taken")
    with pytest.raises(DdpdoctorError, match="random names were taken"), private_directory():
        pass
    assert (place / "ddpdoctor-taken" / "file").exists()
    assert not removers()
    shutil.rmtree(place / "ddpdoctor-taken")


@pytest.fixture
def not_ignored(number: signal.Signals) -> Iterator[None]:
    """A program started now has the signal at its default: below `nohup` it would inherit that SIGHUP is ignored."""
    before = signal.signal(number, lambda *_: None)
    yield
    signal.signal(number, before)


@pytest.mark.usefixtures("not_ignored")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_command_that_is_asked_to_end_cleans_up_itself_and_ends_by_the_signal(
    place: Path, number: signal.Signals
) -> None:
    """Its remover was killed before; one of two deaths is no excuse for what is left."""
    with subprocess.Popen(
        [sys.executable, "-m", "ddpdoctor", "verify-sync", "--nproc", "1"],
        env={**os.environ, "TMPDIR": str(place), "XDG_RUNTIME_DIR": ""},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:

        def its_removers() -> list[psutil.Process]:
            return [child for child in psutil.Process(process.pid).children() if REMOVER in child.cmdline()]

        assert within(lambda: bool(its_removers()) and bool(list(place.iterdir())))
        for remover in its_removers():
            remover.kill()
        process.send_signal(number)
        assert process.wait(timeout=SECONDS) == -number


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: a directory of another user")
def test_root_does_not_use_the_runtime_directory_of_another_user(
    place: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = tmp_path_factory.mktemp("theirs")
    os.chown(theirs, 65534, 65534)
    monkeypatch.setattr("tempfile.tempdir", str(place))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(theirs))
    with private_directory(for_sockets=True) as folder:
        assert folder.path.parent != theirs
