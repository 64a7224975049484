"""Time one collective over a range of sizes, and check every result against values that are exactly known.

    torchrun --nproc-per-node N probes/collective.py PLAN      # PLAN: the JSON of ddpdoctor.workflows.benchmark.BenchPlan

Each iteration is timed on every rank: by the clock around the call on a CPU, by CUDA events around it on a GPU, which
costs no synchronisation between the iterations. Two clock reads an iteration (0.1 us) are the overhead.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import torch
import torch.distributed as dist
from collective_call import Collective
from control_group import agreed, control_group, gathered
from exact_values import Values
from host_links import host_links
from local_compute import own_work
from rank import join, report
from rank_placement import about_this_rank, clock_offset, memory_for_each
from torch import Tensor

from ddpdoctor.analysis.performance.local_compute import FEWEST_RANKS, slow_ranks

DEFAULT_SIZES = {"gloo": [1 << power for power in range(10, 27, 2)], "nccl": [1 << power for power in range(10, 33, 2)]}
MEMORY_SHARE = 0.5  # of what is free for each rank
BUFFERS = 6  # sent, received, expected, and what comparing them needs
SMALL_COUNTS = (0, 1, 7)  # compared whatever the sizes
FEWEST, MOST = 5, 500  # iterations per size, where the time budget decides


def main() -> None:
    """Measure what the plan asks for, as one rank of the job."""
    plan = json.loads(sys.argv[1])
    device = join(timeout_seconds=plan["timeout_seconds"])
    try:
        bench(plan, device)
    finally:
        dist.destroy_process_group()


def bench(plan: dict[str, Any], device: torch.device) -> None:
    """Measure every size of the plan that memory and the time budget allow."""
    start = time.perf_counter()
    control = control_group()
    collective = Collective(plan["collective"], getattr(torch, plan["dtype"]), plan["op"])
    ranks = gathered(about_this_rank(device), control)
    report({"event": "start", "backend": dist.get_backend(), "torch": torch.__version__, "ranks": ranks})
    cap = int(min(gathered(memory_for_each(ranks, device), control)) * MEMORY_SHARE / BUFFERS)
    clock = clock_offset(ranks, control)
    if len(ranks) >= FEWEST_RANKS:
        compare_ranks(ranks, device, control)
    for count in SMALL_COUNTS:
        check(collective, count, device, control)
    wanted = plan["sizes"] or DEFAULT_SIZES[dist.get_backend()]
    sizes = [*{collective.count(size): size for size in wanted}.values()]  # two sizes of one count are one measurement
    for done, size in enumerate(sizes):
        if size > cap:
            report({"event": "left_out", "size_bytes": size, "why": f"the ranks have memory for {cap >> 20}M"})
            continue
        left = agreed(plan["budget_seconds"] - (time.perf_counter() - start), control)
        if left <= 0:
            report({"event": "left_out", "size_bytes": size, "why": "the time budget was used up"})
            continue
        report({"event": "trying", "size_bytes": size})
        count = collective.count(size)
        for checked in (count - 1, count) if count > max(SMALL_COUNTS) else ():
            check(collective, checked, device, control)
        share = left / (len(sizes) - done)
        measure(collective, count, plan, share, clock, device, control)
    report({"event": "end"})


def compare_ranks(ranks: list[dict[str, Any]], device: torch.device, control: dist.ProcessGroup) -> None:
    """Report each rank's own work, and over gloo the links between those hosts whose ranks were not slow at it.

    A collective takes every rank as long as the slowest, so that its own times do not tell which that is. NCCL goes
    other ways than gloo: of those its streams would tell nothing.
    """
    work = gathered(own_work(device, control), control)
    report({"event": "own_work", "ranks": work})
    slow_hosts = {ranks[rank]["host"] for rank in slow_ranks([seconds for seconds, _ in work])}
    links = None
    if dist.get_backend() == "gloo":
        links = host_links(["" if rank["host"] in slow_hosts else rank["host"] for rank in ranks], control)
    if links is not None:
        report({"event": "links", "links": asdict(links)})


def measure(
    collective: Collective,
    count: int,
    plan: dict[str, Any],
    share_seconds: float,
    clock: float,
    device: torch.device,
    control: dist.ProcessGroup,
) -> None:
    """Time one count, and report every rank's starts and durations."""
    sent, received = (
        torch.empty(elements, dtype=collective.dtype, device=device) for elements in collective.elements(count)
    )
    sent.zero_()  # written, so that every page is there
    received.zero_()
    call = collective.over(sent, received)
    dist.barrier(control)
    _, warm = timed(call, max(1, plan["warmup"]), device)
    one = max(gathered(sorted(warm)[len(warm) // 2], control), default=0.0)
    iterations = plan["iterations"] or min(MOST, max(FEWEST, int(share_seconds / max(one, 1e-6))))
    dist.barrier(control)
    starts, durations = timed(call, int(agreed(iterations, control)), device)
    each = gathered(([start + clock for start in starts], durations), control)
    report({"event": "size", "size_bytes": collective.size_bytes(count), "count": count, "ranks": each})


def timed(call: Callable[[], None], iterations: int, device: torch.device) -> tuple[list[float], list[float]]:
    """When each of the calls began, by this machine's clock, and how long it took, in seconds."""
    if device.type == "cuda":
        return timed_by_events(call, iterations)
    clock = time.perf_counter
    starts, ends = [0.0] * iterations, [0.0] * iterations
    for iteration in range(iterations):
        starts[iteration] = clock()
        call()
        ends[iteration] = clock()
    return starts, [end - start for start, end in zip(starts, ends, strict=True)]


def timed_by_events(call: Callable[[], None], iterations: int) -> tuple[list[float], list[float]]:
    """The same on a GPU. The ranks leave a collective together, so that a start is told as minus the duration."""
    marks = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(iterations)]
    for begin, end in marks:
        begin.record()
        call()
        end.record()
    torch.cuda.synchronize()
    durations = [begin.elapsed_time(end) / 1000 for begin, end in marks]
    return [-duration for duration in durations], durations


def check(collective: Collective, count: int, device: torch.device, control: dist.ProcessGroup) -> None:
    """Run the collective once on fresh buffers, and report where its values are not the exact ones."""
    values = Values(collective.op, collective.dtype, dist.get_world_size())
    sent_elements, received_elements = collective.elements(count)
    sent = values.sent(dist.get_rank(), sent_elements).to(device)
    received = (
        sent.clone()
        if sent_elements == received_elements
        else torch.zeros(received_elements, dtype=sent.dtype, device=device)
    )
    if collective.name in ("all_to_all", "send_recv"):
        received.zero_()
    collective.over(sent, received)()
    expected = collective.expected(values, count)
    found = None if expected is None else difference(received, expected.to(device), tolerance(collective))
    wrong = [{"rank": rank, "count": count, **each} for rank, each in enumerate(gathered(found, control)) if each]
    report({"event": "checked", "count": count, "wrong": wrong})


def tolerance(collective: Collective) -> float:
    """0, except where NCCL multiplies by 1/n before it adds, which rounds unless n is a power of two."""
    ranks = dist.get_world_size()
    if collective.op == "avg" and dist.get_backend() == "nccl" and ranks & (ranks - 1):
        return ranks * torch.finfo(collective.dtype).eps
    return 0.0


def difference(received: Tensor, expected: Tensor, relative: float) -> dict[str, Any] | None:
    """How many elements differ and the first that does, or None."""
    off = received != expected  # NaN differs from everything
    if relative:
        off &= ~torch.isclose(received, expected, rtol=relative, atol=relative)
    if not bool(off.any()):
        return None
    index = int(off.to(torch.uint8).argmax())
    return {
        "elements": int(off.sum()),
        "received": received.numel(),
        "index": index,
        "expected": f"{float(expected[index]):g}",
        "got": f"{float(received[index]):g}",
    }


if __name__ == "__main__":
    main()
