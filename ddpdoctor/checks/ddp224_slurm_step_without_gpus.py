"""srun started a step without GPUs on a host that has some."""

from collections.abc import Iterator, Mapping

from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.host import Environment, Host
from ddpdoctor.evidence.torch_build import TorchBuild
from ddpdoctor.model import Finding, Rule, Severity, SkipCheck

RULE = Rule(
    code="DDP224",
    name="slurm-step-without-gpus",
    summary="srun gave the step no GPU on a host that has some",
    severity=Severity.FAIL,
    shown_by="`srun nvidia-smi -L` in the same step shows no GPU",
    remedy="request them in the step: `srun --gpus-per-node=8 ...`, and in the job: `#SBATCH --gpus-per-node=8`",
    explains=("DDP125", "DDP126"),
)


def check(
    environments: PerRank[Environment], machines: PerRank[Host], torches: PerRank[TorchBuild]
) -> Iterator[Finding]:
    """One finding per host on which a torch with CUDA sees no GPU, Slurm gave none, and device files show some."""
    machine_of = {host.host: host.value for host in machines.hosts()}
    torch_of = {host.host: host.value for host in torches.hosts()}
    steps = [host for host in environments.hosts() if "SLURM_STEP_ID" in host.value.variables]
    if not steps:
        raise SkipCheck("no Slurm step")
    for host in steps:
        machine, torch = machine_of.get(host.host), torch_of.get(host.host)
        if machine is None or torch is None or not torch.cuda or torch.cuda_devices != 0:
            continue
        devices = len(machine.nvidia_devices)
        if devices and not _given(host.value.variables):
            step = host.value.variables["SLURM_STEP_ID"]
            yield RULE.finding(
                f"Slurm step {step} has no GPU on {host.host}, which has {devices}: SLURM_STEP_GPUS is not set",
                hosts=(host.host,),
                ranks=host.ranks,
                devices=devices,
            )


def _given(variables: Mapping[str, str]) -> bool:
    """Whether Slurm gave GPUs, or a person hid them on purpose."""
    if variables.get("SLURM_STEP_GPUS") or variables.get("SLURM_GPUS_ON_NODE", "0") != "0":
        return True
    return variables.get("CUDA_VISIBLE_DEVICES", "") not in {"", "NoDevFiles"}  # what Slurm writes for none
