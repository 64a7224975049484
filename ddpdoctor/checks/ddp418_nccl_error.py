"""NCCL failed, in a job or in the tries of `net`, and its words tell on which side: the network, a device, its own set-up."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ddpdoctor.analysis.failures import Failures, unique_ranks
from ddpdoctor.evidence.nccl import NcclOutcome, NcclTransport, NcclTries, NcclTry
from ddpdoctor.model import Finding, Rule, Severity, SkipCheck, group_ranks

RULE = Rule(
    code="DDP418",
    name="nccl-error",
    summary="NCCL failed: the network, a device or its set-up",
    severity=Severity.FAIL,
    remedy="run it again with NCCL_DEBUG=WARN: the line before the error tells the call that failed, and on which host",
    explains=("DDP318", "DDP408"),
)

# what the words mean, and what to do; the first that matches decides
_MEANINGS = (
    (
        r"no socket interface found",
        "NCCL found no network interface",
        "set NCCL_SOCKET_IFNAME to the interface that leads to the other hosts; `ddpdoctor env` lists them",
    ),
    (
        r"Got completion from peer .*(?:error|status=)\s*12|vendor err(?:or)? 129",
        "InfiniBand gave up on a peer after its retries (completion status 12)",
        "the NICs cannot reach each other: on RoCE set NCCL_IB_GID_INDEX to the RoCE v2 entry of show_gids; check the cables",
    ),
    (
        r"Got completion from peer",
        "InfiniBand reported a failed transfer",
        "look at the port counters (`perfquery`, `ddpdoctor env` on that host) and at the cable",
    ),
    (
        r"ibv_modify_qp failed",
        "InfiniBand could not connect two NICs",
        "let NCCL use NICs of one fabric (NCCL_IB_HCA); on RoCE set NCCL_IB_GID_INDEX to the RoCE v2 entry of show_gids",
    ),
    (
        r"ibv_(?:reg_(?:dmabuf_)?mr\w*|create_\w+) failed",
        "InfiniBand could not register memory or make a queue",
        "raise the limit on locked memory: `ulimit -l unlimited`, in a container `--ulimit memlock=-1`",
    ),
    (
        r"peer access is not supported",
        "two GPUs cannot reach each other's memory",
        "choose GPUs that can (`nvidia-smi topo -p2p r`), or set NCCL_P2P_DISABLE=1, which goes around it, slowly",
    ),
    (
        r"Message truncated|Mismatched collective detected",
        "a rank sent another amount than its peer expected",
        "the ranks are in different collectives, or have different versions of NCCL: compare `ddpdoctor env` of the hosts",
    ),
    (
        r"ncclRemoteError|remote process exited",
        "a peer's process ended, or the network to it broke",
        "look for the rank that failed first; if none failed, test the link with `ddpdoctor net`",
    ),
    (
        r"ncclUnhandledCudaError|unhandled cuda error",
        "a CUDA call inside NCCL failed",
        "the line before tells which; after an illegal memory access run with CUDA_LAUNCH_BLOCKING=1; see `dmesg | grep Xid`",
    ),
    (
        r"ncclSystemError|unhandled system error|Call to \w+ (?:failed|returned)",
        "a system call inside NCCL failed: a socket, shared memory, or a device file",
        "the line before tells which: /dev/shm too small, a firewall between the hosts, locked memory limited (`ulimit -l`)",
    ),
    (
        r"ncclInvalidUsage|invalid usage",
        "NCCL was used in a way that it does not allow",
        "most often two ranks on one GPU, or a communicator used after it was aborted",
    ),
    (
        r"ncclInternalError|internal error",
        "NCCL failed inside itself",
        "compare NCCL's version on all hosts (`ddpdoctor env`)",
    ),
)


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
        raise SkipCheck(f"nobody saw a rank end, there is no log, and NCCL was not tried between GPUs: {untried}")
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
    decoded = next((do for pattern, _, do in _MEANINGS if re.search(pattern, "\n".join(warnings))), None)
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
    words = next((failure.words for failure in found if failure.words), "")
    nobodys = failures.log.said if failures.log is not None else ()
    lines = "\n".join([*nobodys, *(line for failure in found for line in (failure.words, *failure.exit.tail))])
    meaning, remedy = next(
        ((said, do) for pattern, said, do in _MEANINGS if re.search(pattern, lines)), ("NCCL failed", None)
    )
    ranks = unique_ranks(found)
    yield RULE.finding(
        f"{meaning}{f' on {group_ranks(ranks)}' if ranks else ''}",
        ranks=ranks,
        where=[where for failure in found for where in failure.where()],
        details=[f"its words: {_telling(words)[:300]}"] if words else (),
        remedy=remedy,
    )


def _telling(words: str) -> str:
    """What follows `Last error:`, which names the call that failed; without it the first line."""
    _, _, last = words.partition("Last error:\n")
    return (last or words).strip().partition("\n")[0].strip()
