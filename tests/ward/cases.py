"""What must be said of each sick job: the code, the culprits and the line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from ddpdoctor.launch.sick_jobs import faults

FAULTS = faults()
STYLES = ("gloo", "gpu")  # ranks that sleep in a collective, and ranks that spin behind it, by the stand-in for GPUs
PATIENT = next(iter(FAULTS.values())).with_name("patient.py")
STRANGERS = Path(__file__).with_name("strangers")
HEALTHY = Path(__file__).with_name("healthy")

IN_LOSS = "return F.cross_entropy("
IN_WRAP = "return DistributedDataParallel("


@dataclass(frozen=True, kw_only=True)
class Case:
    """One sick job; of several codes, as in `DDP305/DDP316`, it depends on who is ended first which can be told.

    `line` is a piece of the source line that the finding must point to, in the program or in patient.py; None where a
    rank that is gone leaves no line. `blames` says who is at fault: the culprit, everyone, or nobody of the ranks. Where
    `tied`, two ranks cannot be told apart and both must be named; where it `needs_majority`, nothing can be asked of two.
    """

    code: str
    how: str | None = None
    line: str | None = None
    blames: Literal["culprit", "everyone", "nobody"] = "culprit"
    tied: bool = False
    needs_majority: bool = False
    options: tuple[str, ...] = ()
    needs_root: bool = False
    program: Path

    @property
    def name(self) -> str:
        """The code and the way, such as `DDP307-lock`."""
        if self.program.parent == STRANGERS:
            return self.program.stem
        return f"{self.code}-{self.how}" if self.how else self.code

    @property
    def styles(self) -> tuple[str, ...]:
        """In which styles of ranks the job can be run: crashes look alike in both."""
        return STYLES if self.code.startswith("DDP3") and self.program.parent != STRANGERS else STYLES[:1]

    def arguments(self, culprit: int) -> list[str]:
        """The command line of the program."""
        how = ["--how", self.how] if self.how else []
        return [] if self.program.parent == STRANGERS else ["--culprit", str(culprit), *how, *self.options]

    def culprits(self, culprit: int, nproc: int) -> list[int]:
        """The ranks that must be named."""
        if self.blames == "nobody":
            return []
        if self.blames == "everyone" or (self.tied and nproc == 2):
            return list(range(nproc))
        return [culprit]

    def wrongs(self, report: Mapping[str, Any], culprit: int, nproc: int) -> list[str]:
        """What is wrong with a report about this job; empty where it is right."""
        if not report["findings"]:
            return ["it found nothing"]
        first, *others = report["findings"]
        wrongs = []
        if first["code"] not in self.code.split("/"):
            wrongs.append(f"the headline is {first['code']}: {first['message']}")
        expected = self.culprits(culprit, nproc)
        if first["ranks"] != expected:
            wrongs.append(f"it blames {first['ranks']}, not {expected}")
        wrongs += [
            f"it also says {other['code']}: {other['message']}"
            for other in others
            if other["explained_by"] is None and other["severity"] != "info"
        ]
        if self.line is not None and not any(self._is_there(where) for where in first["where"]):
            places = [f"{Path(where['file']).name}:{where['line']}" for where in first["where"]]
            wrongs.append(f"it points to {places or 'no line'}, not to `{self.line}`")
        return wrongs

    def _is_there(self, where: Mapping[str, Any]) -> bool:
        file = Path(where["file"])
        if file.name not in {self.program.name, PATIENT.name} or not file.exists():
            return False
        lines = file.read_text().splitlines()
        return self.line in lines[where["line"] - 1]


def _fault(code: str, *hows: str, line: str | None = "# sick", **more: Any) -> Iterator[Case]:
    for how in hows or (None,):
        marker = f"# sick {how}"
        own = marker if line == "# sick" and how and marker in FAULTS[code].read_text() else line
        yield Case(code=code, how=how, line=own, program=FAULTS[code], **more)


CASES = (
    *_fault("DDP301", tied=True),
    *_fault("DDP302", tied=True),
    *_fault("DDP303", "loud", "silent", tied=True),
    *_fault("DDP304", "root", "op", tied=True),
    *_fault("DDP305", "barrier", "log", tied=True),
    *_fault("DDP305", "validate", tied=True, line=IN_LOSS),
    *_fault("DDP306", "wait"),
    *_fault("DDP306", "exit", line=None),
    *_fault("DDP307", "sleep", "lock", "pipe", "subprocess", "compute"),
    *_fault("DDP308", line="# waits here"),
    *_fault("DDP309", "breakpoint", "input"),
    *_fault("DDP310"),
    *_fault("DDP311"),
    *_fault("DDP312", tied=True),
    *_fault("DDP313"),
    *_fault("DDP314", blames="nobody", line="# waits here"),
    *_fault("DDP315", "only", "except", tied=True),
    *_fault("DDP316", tied=True, line="# waits here"),
    *_fault("DDP317"),
    *_fault("DDP318", options=("--steps", "10")),
    *_fault("DDP401"),
    *_fault("DDP402", line=None, needs_root=True),
    *_fault("DDP403", "SIGKILL", "SIGSEGV", line=None),
    *_fault("DDP404", line=IN_LOSS),
    *_fault("DDP405", blames="everyone"),
    *_fault("DDP406", "layer", "width", tied=True, line=IN_WRAP),
    *_fault("DDP409", needs_root=True),
    *_fault("DDP410"),
    *_fault("DDP411", blames="everyone", line=IN_WRAP),
    *_fault("DDP412", blames="everyone", line=IN_LOSS),
    *_fault("DDP413", blames="everyone"),
    *_fault("DDP414"),
    *_fault("DDP416", line=None),
    *_fault("DDP417"),
)


def strangers() -> Iterator[Case]:
    """The jobs of `strangers/`, each with its expectation in its second line: `# DDP305 culprit tied: dist.all_reduce(`."""
    for path in sorted(STRANGERS.glob("*.py")):
        words, _, line = path.read_text().splitlines()[1].removeprefix("# ").partition(":")
        code, blames, *more = words.split()
        case = Case(code=code, program=path, blames=blames, line=line.strip() or None)  # type: ignore[arg-type]
        yield replace(case, tied="tied" in more, needs_majority="majority" in more)


def healthy() -> list[Path]:
    """The jobs that must be left alone."""
    return sorted(HEALTHY.glob("*.py"))


def middle(nproc: int) -> int:
    """A rank that is neither the first nor the last, where there is one."""
    return nproc // 2
