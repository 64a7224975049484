"""What is run on a GPU, the most valuable first: commands, with the time that each may take and what it leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

HANGS = ("DDP307", "DDP305", "DDP319", "DDP301", "DDP310", "DDP314")
PYTHON, FOLDER = "{python}", "{folder}"  # the machine's Python, and where the part leaves its evidence
DDPDOCTOR = (PYTHON, "-m", "ddpdoctor")
REPORT = ("--format", "json", "--output", f"{FOLDER}/report.json", "--case", f"{FOLDER}/case.json")


@dataclass(frozen=True, kw_only=True)
class Step:
    """One command. `fine` are the exit codes of a step that did what it was for: a finding is a result too."""

    command: Sequence[str]
    seconds: float
    fine: frozenset[int] = frozenset({0, 1})


@dataclass(frozen=True, kw_only=True)
class Part:
    """Steps that belong together. `needs` names an environment variable without which it is skipped."""

    name: str
    told: str
    steps: Sequence[Step]
    needs: str | None = None

    @property
    def seconds(self) -> float:
        """The longest that it takes."""
        return sum(step.seconds for step in self.steps)


def parts() -> list[Part]:
    """All parts, in order of worth."""
    return [
        _part("facts", "what NVML, nvidia-smi and torch tell of the card", 90, ("-m", "tests.gpu.facts", FOLDER)),
        _part("sharing", "how several NCCL ranks can share the card", 330, ("-m", "tests.gpu.sharing", FOLDER)),
        _command("env", "`env` on this host", 120, ("env",)),
        *(_hang(code, ranks=2) for code in HANGS),
        _command("smoke", "the main job on this card", 150, ("smoke", "--nproc", "{two}")),
        _part("fingerprint", "fingerprints against copies", 120, ("-m", "tests.gpu.fingerprint", FOLDER)),
        _part("overhead", "what watch and verify-sync cost", 600, ("-m", "tests.gpu.overhead", FOLDER, "{two}")),
        _command("verify-sync", "`verify-sync` of the reference job", 150, ("verify-sync", "--nproc", "{two}")),
        _command(
            "allreduce-bench",
            "an all-reduce of ranks that share the card",
            120,
            ("allreduce-bench", "--nproc", "{ranks}", "--sizes", "1K..256M", "--save", f"{FOLDER}/measured.json"),
        ),
        _command("train", "the reference job", 120, ("train", "--nproc", "{ranks}", "--backend", "nccl")),
        *(_hang(code, ranks=4) for code in HANGS),
        Part(
            name="cifar10",
            told="the accuracy of ResNet-18 on CIFAR-10 after 30 epochs",
            needs="CIFAR10_DIR",
            steps=[Step(command=(*DDPDOCTOR, "train", "--nproc", "1", *CIFAR10, *REPORT), seconds=600)],
        ),
    ]


CIFAR10 = (
    *("--dataset", "cifar10", "--data-dir", "{CIFAR10_DIR}", "--model", "resnet18"),
    *("--amp", "bf16", "--epochs", "30", "--json-lines", f"{FOLDER}/epochs.jsonl"),
)


def _part(name: str, told: str, seconds: float, arguments: Sequence[str]) -> Part:
    return Part(name=name, told=told, steps=[Step(command=(PYTHON, *arguments), seconds=seconds)])


def _command(name: str, told: str, seconds: float, arguments: Sequence[str]) -> Part:
    return Part(name=name, told=told, steps=[Step(command=(*DDPDOCTOR, *arguments, *REPORT), seconds=seconds)])


def _hang(code: str, *, ranks: int) -> Part:
    name = f"{code.lower()}-{ranks}"
    told = f"{code} on {ranks} ranks by watch, hang and diagnose"
    return _part(name, told, 300, ("-m", "tests.gpu.hangs", code, str(ranks), FOLDER))
