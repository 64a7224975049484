"""The ranks of a host start more threads than they may use processors."""

from collections.abc import Iterator

from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.limits import Cpu
from ddpdoctor.grouping import grouped
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP603",
    name="cpu-oversubscribed",
    summary="local ranks run more threads than they have CPU cores",
    severity=Severity.WARN,
    shown_by="OMP_NUM_THREADS times the local ranks is above the number of cores: `ddpdoctor env`",
    remedy="set OMP_NUM_THREADS to the CPU cores divided by the local ranks, or start fewer ranks on the host",
    background=True,
)

BUSY_PERCENT = 50  # the kernel's own measure: some process waited for a processor in half of the last ten seconds


def check(cpu: PerRank[Cpu]) -> Iterator[Finding]:
    """One finding for each host whose ranks compute with more threads than there are usable processors.

    Usable are the processors in the union of the ranks' affinities, but no more than the container's quota.
    """
    by_host = grouped((entry.host, entry.value) for entry in cpu)
    for host, ranks in by_host.items():
        usable: float = len({number for each in ranks for number in each.affinity})
        quota = min((each.quota_cores for each in ranks if each.quota_cores is not None), default=None)
        usable = usable if quota is None else min(usable, quota)
        threads = sum(each.threads for each in ranks)
        pressure = max((each.pressure_percent or 0.0 for each in ranks), default=0.0)
        if threads <= max(1, usable):
            if pressure > BUSY_PERCENT:
                yield _busy(host, pressure)
            continue
        set_to = {each.omp_threads for each in ranks}
        omp = (
            f"OMP_NUM_THREADS={next(iter(set_to))}"
            if len(set_to) == 1 and None not in set_to
            else "OMP_NUM_THREADS unset"
        )
        who = f"{len(ranks)} local {'rank' if len(ranks) == 1 else 'ranks'}"
        yield RULE.finding(
            f"{who} on {host} run {threads} threads ({omp}) on {usable:g} usable CPU cores",
            hosts=(host,),
            remedy=_remedy(len(ranks), usable),
            threads=threads,
            usable_cores=usable,
            local_ranks=len(ranks),
        )


def _busy(host: str, pressure: float) -> Finding:
    return RULE.finding(
        f"processes on {host} waited for a CPU during {pressure:.0f} % of the last ten seconds",
        hosts=(host,),
        severity=Severity.INFO,
        remedy="check with `top` what else runs on the host",
        pressure_percent=pressure,
    )


def _remedy(ranks: int, usable: float) -> str:
    if ranks > usable:
        return f"start at most {max(1, int(usable))} ranks on the host, or give it more CPU cores"
    return f"export OMP_NUM_THREADS={max(1, int(usable // ranks))}"
