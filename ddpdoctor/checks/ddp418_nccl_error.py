"""NCCL failed, in a job or in the tries of `net`, and its words tell on which side: the network, a device, its own set-up."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ddpdoctor.analysis.crashes.error_patterns import SecondaryError
from ddpdoctor.analysis.crashes.failure import Failure, unique_ranks
from ddpdoctor.analysis.crashes.failures import Failures
from ddpdoctor.evidence.nccl import NcclOutcome, NcclTransport, NcclTries, NcclTry
from ddpdoctor.messages.known_errors import SHOWN_CHARACTERS, line_of, sentence
from ddpdoctor.model import ErrorPattern, Finding, Rule, Severity, SkipCheck

_WITHOUT_A_REASON = ErrorPattern(
    regex=r"NCCL error in:",
    sentence="NCCL failed{on}, and the log does not show why",
    remedy="give the whole line and those after it, which tell the reason; NCCL_DEBUG=WARN prints more above it",
    wrapper=True,
)
RULE = Rule(
    code="DDP418",
    name="nccl-error",
    summary="NCCL failed: the network, a device or its set-up",
    severity=Severity.FAIL,
    shown_by="a line `NCCL WARN` above the error names the call, the address and the reason: NCCL_DEBUG=WARN prints it",
    remedy="run it again with NCCL_DEBUG=WARN: the line before the error tells the call that failed, and on which host",
    explains=("DDP318", "DDP408"),
    errors=(
        ErrorPattern(
            regex=r"no socket interface found",
            sentence="NCCL found no network interface{on}",
            remedy="set NCCL_SOCKET_IFNAME to the interface that leads to the other hosts; `ddpdoctor env` lists them",
        ),
        ErrorPattern(
            regex=r"[Cc]onnect to (?P<addr>[\w.:%-]+?)<(?P<port>\d{1,18})> (?:failed|returned) ?:? ?(?P<why>[A-Z][\w "
            r"]*)(?!.{0,200}retrying)",
            sentence="NCCL could not connect{on} to {addr} port {port}: {why}",
            remedy="see which interface NCCL takes (NCCL_DEBUG=INFO, `NET/Socket : Using`) and set NCCL_SOCKET_IFNAME to "
            "the one that leads "
            "to the other hosts; open the ports between them; an address of no host of this job is a left-over rendezvous file",
        ),
        ErrorPattern(
            regex=r"Got completion from peer (?P<addr>[\w.:%\[\]-]{1,60})<\d+>[^\n]{0,20}(?:error|status=)\s*12\b|"
            r"Got completion [^\n]{0,60}(?:error|status=)\s*12\b|vendor err(?:or)? 129|status=IBV_WC_RETRY_EXC_ERR\b",
            sentence="InfiniBand gave up on a peer after its retries (completion status 12){on}: {words}",
            remedy="the NICs cannot reach each other: on RoCE set NCCL_IB_GID_INDEX to the RoCE v2 entry of show_gids; "
            "check the cables",
        ),
        ErrorPattern(
            regex=r"Got completion from peer",
            sentence="InfiniBand reported a failed transfer{on}: {words}",
            remedy="look at the port counters (`perfquery`, `ddpdoctor env` on that host) and at the cable",
        ),
        ErrorPattern(
            regex=r"ibv_modify_qp failed",
            sentence="InfiniBand could not connect two NICs{on}: ibv_modify_qp failed",
            remedy="let NCCL use NICs of one fabric (NCCL_IB_HCA); on RoCE set NCCL_IB_GID_INDEX to the RoCE v2 entry of "
            "show_gids",
        ),
        ErrorPattern(
            regex=r"(?P<call>ibv_(?:reg_(?:dmabuf_)?mr\w{0,60}|create_\w{1,60})) failed",
            sentence="InfiniBand could not register memory or make a queue{on}: {call} failed",
            remedy="raise the limit on locked memory: `ulimit -l unlimited`, in a container `--ulimit memlock=-1`",
        ),
        ErrorPattern(
            regex=r"peer access is not supported",
            sentence="two GPUs cannot reach each other's memory{on}: peer access is not supported between them",
            remedy="choose GPUs that can (`nvidia-smi topo -p2p r`), or set NCCL_P2P_DISABLE=1, which goes around it, slowly",
        ),
        ErrorPattern(
            regex=r"NCCL WARN (?P<said>(?:(?:hip|cuda)Ipc\w{1,40} failed|failed to open (?:CUDA|HIP) IPC handle)[^\n]{0,120})",
            sentence="one GPU could not open the memory of another{on}: {said}",
            remedy="start containers with `--ipc=host` and give each of them all GPUs of the host that the job uses; "
            "NCCL_P2P_DISABLE=1 goes around it, slowly",
        ),
        ErrorPattern(
            regex=r"NVLink SHARP|\bNVLS\b.{0,400}(?:CUDA error|[Ff]ail)|transport/nvls\.cc:\d{1,6} NCCL WARN Cuda failure",
            sentence="NCCL could not set up NVLink SHARP (NVLS) memory{on}",
            remedy="look at the fabric manager (`systemctl status nvidia-fabricmanager`) and at memory that other "
            "processes hold; NCCL_NVLS_ENABLE=0 does without it",
        ),
        ErrorPattern(
            regex=r"(?:Cuda failure|CUDA error)[^\n]{0,20}system not yet initialized",
            sentence="CUDA cannot be used{on}: system not yet initialized",
            remedy="start the fabric manager, without which GPUs on an NVSwitch cannot be used (`systemctl status "
            "nvidia-fabricmanager`); its version must be that of the driver",
        ),
        ErrorPattern(
            regex=r"NET/IB : [^\n]{0,60}peer (?P<addr>[\w.:%\[\]-]{1,60})<\d{1,9}> collective mismatch error, local size "
            r"(?P<local>\d{1,18}) remote size (?P<remote>\d{1,18})",
            sentence="a transfer of {local} bytes met one of {remote} bytes at its peer {addr}{on}",
            remedy="the ranks are in different collectives, or the hosts differ in NCCL's version or in NCCL_ variables: "
            "compare `ddpdoctor env` of this host and of its peer",
        ),
        ErrorPattern(
            regex=r"Mismatched collective detected.{0,80}? at and around rank (?P<peer>\d{1,9})",
            sentence="NCCL saw ranks in calls that do not fit together, at and around rank {peer}{on}",
            remedy="look at what these ranks call there: flight recorders tell (`ddpdoctor diagnose DUMPS`), or a run with "
            "TORCH_DISTRIBUTED_DEBUG=DETAIL",
        ),
        ErrorPattern(
            regex=r"[Mm]essage truncated|Mismatched collective detected|collective mismatch error",
            sentence="a rank sent another amount than its peer expected{on}",
            remedy="the ranks are in different collectives, or have different versions of NCCL: compare `ddpdoctor env` of "
            "the hosts",
        ),
        ErrorPattern(
            regex=r"(?:Cuda|HIP) failure (?:\d+ )?'(?P<why>[^']+)'",
            sentence="a CUDA or HIP call inside NCCL failed{on}: {why}",
            remedy="see whether this GPU works alone (`nvidia-smi`, a script of one rank) and `dmesg | grep Xid`; compare "
            "the driver with the "
            "CUDA of NCCL (`ddpdoctor env`); in WSL and virtual machines set NCCL_P2P_DISABLE=1",
        ),
        ErrorPattern(
            regex=r"NCCL WARN (?:\[?\w+\]? )?(?P<said>Call to (?P<call>\w+) (?:failed|returned)[^\n]{0,120})",
            sentence="a system call inside NCCL failed{on}: {said}",
            remedy="see what this call needs: a port, a device file, shared memory, or a peer that still runs",
        ),
        ErrorPattern(
            regex=r"remote process exited",
            sentence="a peer's process ended, or the network to it broke{on}",
            remedy="look for the rank that failed first; if none failed, test the link with `ddpdoctor net`",
            wrapper=True,
        ),
        ErrorPattern(
            regex=r"ncclUnhandledCudaError|unhandled cuda error|NCCL [Ee]rror 1\b",
            sentence="a CUDA call inside NCCL failed{on}",
            remedy="the line before tells which; after an illegal memory access run with CUDA_LAUNCH_BLOCKING=1; see "
            "`dmesg | grep Xid`",
            wrapper=True,
        ),
        ErrorPattern(
            regex=r"ncclSystemError|unhandled system error|NCCL [Ee]rror 2\b|Call to \w+ (?:failed|returned)",
            sentence="a system call inside NCCL failed{on} (system error): a socket, shared memory, or a device file",
            remedy="the line before tells which: /dev/shm too small, a firewall between the hosts, locked memory limited "
            "(`ulimit -l`)",
            wrapper=True,
        ),
        ErrorPattern(
            regex=r"ncclInvalidUsage|ncclInvalidArgument|invalid (?:usage|argument) \(run with NCCL_DEBUG|NCCL invalid "
            r"usage|NCCL [Ee]rror [45]\b",
            sentence="NCCL was used in a way that it does not allow{on}",
            remedy="most often two ranks on one GPU, or a communicator used after it was aborted",
            wrapper=True,
        ),
        ErrorPattern(
            regex=r"ncclInternalError|NCCL (?:\w+ )?internal error|internal error - please report|NCCL [Ee]rror 3\b",
            sentence="NCCL failed inside itself{on}",
            remedy="compare NCCL's version on all hosts (`ddpdoctor env`)",
            wrapper=True,
        ),
        _WITHOUT_A_REASON,
    ),
)
# the first pattern that fits what NCCL says, to decode what it says in a try
_MEANINGS = tuple((error.regex, error.remedy) for error in RULE.errors)


# what to do where a transport does not work between the GPUs of one host, and NCCL's words do not tell more
_WAYS: dict[NcclTransport, str] = {
    "P2P": "switch off ACS and the IOMMU's translation (`iommu=pt`) in BIOS and kernel, which send GPU traffic astray; "
    "NCCL_P2P_DISABLE=1 goes around it, slowly",
    "SHM": "give the container more shared memory (`--shm-size=8g` or `--ipc=host`); NCCL_SHM_DISABLE=1 goes around it, slowly",
    "NET": "set NCCL_SOCKET_IFNAME to an interface whose address this host reaches, and look at its firewall",
}
_HOW: dict[NcclOutcome, str] = {"failed": "fails", "hung": "hangs", "wrong": "gives a wrong sum"}


def check(failures: Failures | None, nccl: NcclTries | None) -> Iterator[Finding]:
    """What NCCL's words mean, on which ranks or hosts; said only of ranks that do not merely echo a peer."""
    if failures is None and (nccl is None or not nccl.tries):
        untried = "; ".join(sorted(set(nccl.skipped.values()))) if nccl is not None else "net did not get to it"
        raise SkipCheck(f"no job log, no exit status of any rank and no NCCL transport tests: {untried}")
    if failures is not None:
        yield from _of_a_job(failures)
    if nccl is not None:
        for tried in nccl.tries:
            if tried.outcome in _HOW:
                yield _of_a_try(tried, nccl)


def _does_without(tried: NcclTry, nccl: NcclTries) -> bool:
    """Whether NCCL joins all GPUs of the host by a way that it prefers, and no other host needs this one."""
    hosts = {each.node for each in nccl.tries} | set(nccl.skipped)
    if tried.transport == "NET" and len(hosts) > 1:
        return False
    preferred = list(_WAYS)[: list(_WAYS).index(tried.transport)]
    return any(
        each.node == tried.node
        and each.transport in preferred
        and each.outcome == "ok"
        and all(log.transports in {(), (each.transport,)} for log in each.logs)
        for each in nccl.tries
    )


def _of_a_try(tried: NcclTry, nccl: NcclTries) -> Finding:
    others = [each.transport for each in nccl.tries if each.node == tried.node and each.outcome == "ok"]
    warnings = list(dict.fromkeys(words for log in tried.logs for words in log.warnings))
    decoded = next((do for pattern, do in _MEANINGS if re.search(pattern, "\n".join(warnings))), None)
    works = f"; it works over {' and '.join(others)}" if others else ""
    return RULE.finding(
        f"NCCL over {tried.transport} {_HOW[tried.outcome]} between the {tried.gpus} GPUs of {tried.host} "
        f"({tried.detail}){works}",
        ranks=(tried.node,),
        hosts=(tried.host,),
        remedy=decoded or _WAYS[tried.transport],
        severity=Severity.WARN if _does_without(tried, nccl) else Severity.FAIL,
        details=[*(f"its words: {words[:300]}" for words in warnings), *tried.remarks],
        transport=tried.transport,
        seconds=tried.seconds,
    )


def _of_a_job(failures: Failures) -> Iterator[Finding]:
    found = failures.of("DDP418")
    if not found:
        return
    first = next((failure for failure in found if failure.known and not failure.known.pattern.wrapper), found[0])
    assert first.known is not None
    pattern, last = first.known.pattern, _last_error(found)
    if pattern is _WITHOUT_A_REASON and any(one.secondary_error is SecondaryError.TIMED_OUT for one in failures.all):
        return  # a watchdog that gives up aborts what its process calls in NCCL
    ranks = unique_ranks(found)
    message, words = sentence(first, [*found]), last or line_of(first)
    if pattern.wrapper and last:
        message = f"{message}: {last[:SHOWN_CHARACTERS]}"
    yield RULE.finding(
        message,
        ranks=ranks,
        where=[where for failure in found for where in failure.where()],
        details=[f"its words: {words[:300]}"] if first.text and words not in message else (),
        remedy=pattern.remedy,
        shown_by_job=True,
    )


def _last_error(found: Sequence[Failure]) -> str:
    """What follows `Last error:`, which names the call that failed."""
    for failure in found:
        _, _, last = failure.text.partition("Last error:\n")
        if last.strip():
            return last.strip().partition("\n")[0].strip()
    return ""
