"""Hosts made of network namespaces: each with its own interface, name and /etc/hosts, all on one bridge.

with Hosts(3) as hosts:
hosts.on(1, "iptables", "-A", "INPUT", "-j", "DROP")
outputs = hosts.net()
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from typing_extensions import Self

from tests.waiting import within

PORT = 29500
BOOT_ID = "/proc/sys/kernel/random/boot_id"
HOUR_AHEAD = "import time\nreal = time.time\ntime.time = lambda: real() + 3600\n"  # a sitecustomize.py
TOOLS = ("ip", "ss", "tc", "iptables", "ip6tables", "unshare", "mount", "setpriv")

# which suite has time for which number of hosts
FIVE = pytest.param("five", id="5", marks=pytest.mark.matrix)
BOTH = pytest.mark.parametrize("hosts", [pytest.param("three", id="3"), FIVE], indirect=True)
LONGER = pytest.mark.parametrize("hosts", [pytest.param("three", id="3", marks=pytest.mark.slow), FIVE], indirect=True)
RARE = pytest.mark.parametrize("hosts", [pytest.param("three", id="3", marks=pytest.mark.matrix), FIVE], indirect=True)


def why_not() -> str:
    """Why this machine cannot make hosts, or nothing."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        return f"not installed: {', '.join(missing)}"
    probe = subprocess.run(
        ["ip", "netns", "add", f"ddp-probe{os.getpid()}"], capture_output=True, text=True, timeout=20
    )
    subprocess.run(["ip", "netns", "del", f"ddp-probe{os.getpid()}"], capture_output=True, timeout=20)
    return "" if probe.returncode == 0 else f"no network namespaces: {probe.stderr.strip()}"


@dataclass
class Said:
    """What the command said on one host."""

    code: int
    stdout: str
    stderr: str

    @property
    def report(self) -> dict:
        return json.loads(self.stdout)


def culprits(said: Said) -> dict[str, list[int]]:
    """The ranks of each headline at warn or above that nothing else explains."""
    return {
        finding["code"]: finding["ranks"]
        for finding in said.report["findings"]
        if finding["explained_by"] is None and finding["severity"] != "info"
    }


class Hosts:
    """`count` hosts: node0 is 192.168.77.1, node1 is 192.168.77.2, and so on. All of it is gone after the `with`.

    Each has a boot id of its own, as machines have, so that none takes another's clock for its own. A test may call a host
    differently in `hostnames`, and put other texts in the place of its files in `files`.
    """

    _made = itertools.count()

    def __init__(self, count: int) -> None:
        self.count = count
        self._tag = f"ddp{os.getpid() % 100000}x{next(self._made) % 10}"  # interface names have 15 letters
        self.bridge = f"{self._tag}b"
        self.hostnames: dict[int, str] = {}
        self.files: dict[int, dict[str, str]] = {}
        self._texts = tempfile.TemporaryDirectory(prefix="ddp-hosts-")
        self._left_running: list[subprocess.Popen] = []

    def name(self, number: int) -> str:
        return f"{self._tag}n{number}"

    def address(self, number: int) -> str:
        return f"192.168.77.{number + 1}"

    def __enter__(self) -> Self:
        try:
            _run("ip", "link", "add", self.bridge, "type", "bridge")
            _run("ip", "link", "set", self.bridge, "up")
            for number in range(self.count):
                self._make(number)
        except BaseException:
            self.__exit__()
            raise
        return self

    def _make(self, number: int) -> None:
        space, end = self.name(number), f"{self._tag}v{number}"
        _run("ip", "netns", "add", space)
        _run("ip", "link", "add", end, "type", "veth", "peer", "name", "eth0", "netns", space)
        _run("ip", "link", "set", end, "master", self.bridge, "up")
        self.on(number, "ip", "addr", "add", f"{self.address(number)}/24", "dev", "eth0")
        self.on(number, "ip", "link", "set", "eth0", "up")
        self.on(number, "ip", "link", "set", "lo", "up")
        self.names(number)

    def names(self, number: int, **instead: str) -> None:
        """Write the host's /etc/hosts: everybody's real address, and what `instead` says of single names."""
        known = {f"node{other}": self.address(other) for other in range(self.count)} | instead
        folder = Path("/etc/netns") / self.name(number)
        folder.mkdir(parents=True, exist_ok=True)
        lines = ["127.0.0.1 localhost", *(f"{address} {name}" for name, address in known.items())]
        (folder / "hosts").write_text("\n".join(lines) + "\n")
        (folder / "resolv.conf").write_text("")

    def on(self, number: int, *command: str) -> str:
        """Run a short command on a host."""
        return _run("ip", "netns", "exec", self.name(number), *command)

    def narrow(self, number: int, rate: str = "100mbit") -> None:
        """Give a host a link of `rate` in both directions, until `restore`."""
        shape = ("root", "tbf", "rate", rate, "burst", "64kbit", "latency", "400ms")
        self.on(number, "tc", "qdisc", "add", "dev", "eth0", *shape)
        _run("tc", "qdisc", "add", "dev", f"{self._tag}v{number}", *shape)

    def _instead(self, number: int, path: str, text: str) -> Path:
        """A file for a host to see in the place of its own at `path`."""
        file = Path(self._texts.name) / f"{number}-{path.replace('/', '-')}"
        file.write_text(text)
        return file

    def restore(self, number: int) -> None:
        """Make a host again as it was made: no firewall, no narrow link, no further interface, its own names."""
        for family in ("iptables", "ip6tables"):
            self.on(number, family, "-F")
        for interface in json.loads(self.on(number, "ip", "-json", "link")):
            if interface["ifname"] not in {"lo", "eth0"}:
                self.on(number, "ip", "link", "del", interface["ifname"])
        for command in (
            ["ip", "netns", "exec", self.name(number), "tc", "qdisc", "del", "dev", "eth0", "root"],
            ["tc", "qdisc", "del", "dev", f"{self._tag}v{number}", "root"],
        ):
            subprocess.run(command, capture_output=True, timeout=20, check=False)  # most have none
        self.on(number, "ip", "link", "set", "eth0", "up")
        self.hostnames.pop(number, None)
        self.files.pop(number, None)
        self.names(number)

    def pids(self, number: int) -> list[int]:
        """The processes that run on a host."""
        return [int(pid) for pid in _run("ip", "netns", "pids", self.name(number)).split()]

    def start(self, number: int, *command: str, env: dict[str, str] | None = None) -> subprocess.Popen:
        """Start a program on a host, under the host's own name; it is ended with the hosts at the latest."""
        files = {BOOT_ID: f"{number:08x}-0000-4000-8000-{os.getpid():012x}\n"} | self.files.get(number, {})
        mounts = [f"mount --bind {self._instead(number, path, text)} {path}" for path, text in files.items()]
        inside = "; ".join(
            [f"echo {self.hostnames.get(number, f'node{number}')} > /proc/sys/kernel/hostname", *mounts, 'exec "$@"']
        )
        process = subprocess.Popen(
            ["ip", "netns", "exec", self.name(number), "unshare", "--uts", "sh", "-c", inside, "sh", *command],
            env={**_clean_environ(), **(env or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._left_running.append(process)
        return process

    def net_command(
        self, number: int, *, node_rank: int | None = None, master: str = "node0", deadline: int = 60
    ) -> list[str]:
        """`ddpdoctor net` as one types it on a host without a launcher."""
        return [
            sys.executable, "-m", "ddpdoctor", "net", "--nnodes", str(self.count),
            "--node-rank", str(number if node_rank is None else node_rank),
            "--master-addr", master, "--master-port", str(PORT), "--deadline", str(deadline), "--format", "json",
        ]  # fmt: skip

    def net(
        self,
        *,
        only: tuple[int, ...] | None = None,
        master: dict[int, str] | None = None,
        node_rank: dict[int, int] | None = None,
        env: dict[int, dict[str, str]] | None = None,
        deadline: int = 60,
    ) -> dict[int, Said]:
        """`ddpdoctor net` on every host (or `only` some)."""
        processes = {
            number: self.start(
                number,
                *self.net_command(
                    number,
                    node_rank=(node_rank or {}).get(number),
                    master=(master or {}).get(number, "node0"),
                    deadline=deadline,
                ),
                env=(env or {}).get(number),
            )
            for number in (range(self.count) if only is None else only)
        }
        return {number: said_by(process, deadline + 60) for number, process in processes.items()}

    def net_while(self, happens: Callable[[], object], *, on: int, deadline: int = 60) -> dict[int, Said]:
        """`ddpdoctor net` on every host; it `happens` once host `on` has joined and before the last host comes."""
        command = {number: self.net_command(number, deadline=deadline) for number in range(self.count)}
        first = {number: self.start(number, *command[number]) for number in (0, on)}
        assert within(lambda: "LISTEN" in self.on(on, "ss", "-ltn").partition("\n")[2])
        time.sleep(1.0)  # from its listener to its word that it is there, two messages to the store
        happens()
        later = {number: self.start(number, *command[number]) for number in range(self.count) if number not in first}
        return {number: said_by(process, deadline + 60) for number, process in sorted((first | later).items())}

    def torchrun(
        self, *command: str, timeout: int = 240, env: dict[int, dict[str, str]] | None = None, nproc: int = 1
    ) -> dict[int, Said]:
        """Torchrun on every host, with the same command."""
        processes = {
            number: self.start(
                number, sys.executable, "-m", "torch.distributed.run", "--nnodes", str(self.count),
                "--node-rank", str(number), "--nproc-per-node", str(nproc), "--master-addr", "node0",
                "--master-port", str(PORT), *command, env=(env or {}).get(number),
            )
            for number in range(self.count)
        }  # fmt: skip
        return {number: said_by(process, timeout) for number, process in processes.items()}

    def __exit__(self, *_: object) -> None:
        for process in self._left_running:
            if process.poll() is None:
                process.kill()
            process.communicate()
        for number in range(self.count):
            with suppress(subprocess.SubprocessError):
                for pid in self.pids(number):
                    with suppress(ProcessLookupError):
                        os.kill(pid, 9)
            with suppress(subprocess.SubprocessError):
                _run("ip", "netns", "del", self.name(number))
            with suppress(subprocess.SubprocessError):
                _run("ip", "link", "del", f"{self._tag}v{number}")
            shutil.rmtree(Path("/etc/netns") / self.name(number), ignore_errors=True)
        with suppress(subprocess.SubprocessError):
            _run("ip", "link", "del", self.bridge)
        with suppress(OSError):
            Path("/etc/netns").rmdir()
        self._texts.cleanup()


def _clean_environ() -> dict[str, str]:
    launchers = (
        "RANK",
        "WORLD_SIZE",
        "LOCAL_",
        "MASTER_",
        "TORCHELASTIC",
        "SLURM",
        "OMPI",
        "GLOO",
        "NCCL",
        "GROUP_",
        "ROLE_",
    )
    return {name: value for name, value in os.environ.items() if not name.startswith(launchers)}


def said_by(process: subprocess.Popen, timeout: int) -> Said:
    """What a started command said, once it has ended."""
    stdout, stderr = process.communicate(timeout=timeout)
    return Said(code=process.returncode, stdout=stdout, stderr=stderr)


def _run(*command: str) -> str:
    ended = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    return ended.stdout
