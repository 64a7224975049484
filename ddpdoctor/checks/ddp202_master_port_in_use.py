"""Another process listens on MASTER_PORT where rank 0 would listen."""

from collections.abc import Iterator

from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.launch import Launch
from ddpdoctor.evidence.network import Master, PortOwner
from ddpdoctor.messages.times import utc
from ddpdoctor.model import ErrorPattern, Finding, Rule, Severity, SkipCheck

OF_A_PROCESS = "stop that process, or give the job another port: `torchrun --master-port N` or MASTER_PORT"
RULE = Rule(
    code="DDP202",
    name="master-port-in-use",
    summary="MASTER_PORT is in use already, by another process or by a server of this rank",
    severity=Severity.FAIL,
    shown_by="`ddpdoctor port PORT` on the master names the process that holds the port",
    remedy="see what holds it (`ddpdoctor port PORT` while it does): stop that process, or, where the rank itself opens this "
    "port before `init_process_group` (a dashboard, a metrics server), give that another one; or give the job another port, "
    "`torchrun --master-port N` or MASTER_PORT: `ddpdoctor port` prints a free one",
    explains=(
        "DDP203",
        "DDP204",
        "DDP205",
        "DDP226",
        "DDP401",
    ),
    errors=(
        ErrorPattern(
            regex=r"failed to (?:bind|listen) (?:to|on) \[?[\w.:?*]*\]?:(?P<port>\d{1,18}) .{0,40}Address already in use",
            sentence="port {port} is in use already{on}: {words}",
        ),
        ErrorPattern(
            regex=r"port: (?P<port>\d{1,18}), useIpv6: \d?\w*, code: -98",
            sentence="port {port} is in use already{on}: EADDRINUSE",
        ),
        ErrorPattern(
            regex=r"distributed communication on port .(?P<port>\d{1,18}).{0,4} but another process is utilizing it",
            sentence="port {port} is in use already",
        ),
        ErrorPattern(
            regex=r"(?:RuntimeError|DistNetworkError): (?:.{0,200}name: EADDRINUSE|Address already in use)|server socket "
            r"has failed to (?:bind|listen).{0,300}[Aa]ddress already in use",
            sentence="MASTER_PORT is in use already{on}: {words}",
        ),
    ),
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
            f"port {first.value.port} on {first.host} is in use by {_describe(owner)}",
            ranks=(first.rank,) if master.launched else (),
            hosts=(first.host,),
            remedy=OF_A_PROCESS if owner.pid is not None else None,
            port=first.value.port,
            pid=owner.pid,
            command=owner.command,
        )


def _describe(owner: PortOwner) -> str:
    if owner.pid is None:
        return "a process that is not visible: another user's, or not listening yet"
    since = "" if owner.since is None else f" (since {utc(owner.since)})"
    return f"process {owner.pid}: {owner.command or 'unknown command'}{since}"
