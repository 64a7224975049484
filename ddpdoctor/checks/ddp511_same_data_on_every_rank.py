"""Every rank trains on the same samples: N ranks do the work of one."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.replicas.divergence import Divergences
from ddpdoctor.analysis.replicas.divergences.data import SameInputs, SameSamples
from ddpdoctor.evidence.value_chains import ValueChains
from ddpdoctor.messages import sampler_shares
from ddpdoctor.messages.divergence import everyone, finding
from ddpdoctor.model import Finding, Rule, Severity, group_ranks

RULE = Rule(
    code="DDP511",
    name="same-data-on-every-rank",
    summary="all ranks, or some, train on the same samples",
    severity=Severity.FAIL,
    shown_by="the fingerprints of the batches are equal on all ranks: `ddpdoctor verify-sync`",
    remedy="give each rank its own shard: DataLoader(..., sampler=DistributedSampler(dataset))",
    explains=("DDP513", "DDP516"),
)
OF_INPUTS = (
    "give each rank its own shard (DistributedSampler); where each draws by itself, seed it by its rank: "
    "`torch.manual_seed(seed + rank)`"
)
SHOWN_GROUPS = 4


def check(divergences: Divergences, chains: ValueChains | None = None) -> Iterator[Finding]:
    """An epoch whose indices are the same on all ranks, or steps whose inputs are on several."""
    for samples in divergences.of(SameSamples):
        message = (
            f"in epoch {samples.epoch}, {everyone(samples.ranks, divergences.world_size)} draw the same {samples.unique} samples "
            "in the same order"
        )
        yield sampler_shares.finding(RULE, samples, message, chains, cause="indices")
    for inputs in divergences.of(SameInputs):
        who = _who(inputs, divergences.world_size)
        message = f"the model gets the same input on {who}, in {inputs.steps} of {inputs.steps} compared steps"
        numbers = {"steps": inputs.steps}
        yield finding(RULE, inputs, message, cause="inputs", note="the forward", remedy=OF_INPUTS, numbers=numbers)


def _who(inputs: SameInputs, world_size: int) -> str:
    """`all 8 ranks`, `ranks 1-3`, or of several groups `all ranks of each of 2 groups (ranks 0,2; ranks 1,3)`."""
    if len(inputs.groups) == 1:
        return everyone(inputs.ranks, world_size)
    shown = "; ".join(map(group_ranks, inputs.groups[:SHOWN_GROUPS]))
    more = "; ..." if len(inputs.groups) > SHOWN_GROUPS else ""
    return f"all ranks of each of {len(inputs.groups)} groups ({shown}{more})"
