"""Another process listens on MASTER_PORT where rank 0 would listen."""

from collections.abc import Iterator
from datetime import datetime, timezone

from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.launch import Launch
from ddpdoctor.evidence.network import Master, PortOwner
from ddpdoctor.model import Finding, Rule, Severity, SkipCheck

RULE = Rule(
    code="DDP202",
    name="master-port-in-use",
    summary="MASTER_PORT is held by another process",
    severity=Severity.FAIL,
    remedy="end that process, or export another MASTER_PORT: `ddpdoctor port` names a free one",
)


def check(master: PerRank[Master], launch: PerRank[Launch] | None) -> Iterator[Finding]:
    """A finding where somebody else's process listens on the port; torchrun's own agent may, and does.

    Judged on the host of rank 0, or on an unlaunched host whose own address MASTER_ADDR is.
    """
    first = next((entry for entry in master if entry.value.local and entry.rank == min(master.ranks)), None)
    if first is None:
        raise SkipCheck("MASTER_ADDR is not an address of this host")
    if first.value.port is None:
        raise SkipCheck("MASTER_PORT is not set")
    if launch is not None and any(entry.value.launcher == "torchrun" for entry in launch):
        return
    owner = first.value.owner
    if owner is not None and not owner.ours:
        yield RULE.finding(
            f"port {first.value.port} on {first.host} is held by {_words(owner)}",
            ranks=(first.rank,) if master.launched else (),
            hosts=(first.host,),
            port=first.value.port,
            pid=owner.pid,
            command=owner.command,
        )


def _words(owner: PortOwner) -> str:
    if owner.pid is None:
        return "a process that cannot be seen: of another user, or not listening yet"
    since = (
        ""
        if owner.since is None
        else f" (since {datetime.fromtimestamp(owner.since, timezone.utc):%Y-%m-%d %H:%M:%S} UTC)"
    )
    return f"process {owner.pid}: {owner.command or 'of unknown command line'}{since}"
