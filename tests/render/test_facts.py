"""What `ddpdoctor env --verbose` shows of a host beside its findings."""

from __future__ import annotations

from ddpdoctor.evidence import Evidence, RankFacts
from ddpdoctor.evidence.host import Host
from ddpdoctor.evidence.limits import SharedMemory
from ddpdoctor.evidence.network import Infiniband, InfinibandPort, Interface, Network
from ddpdoctor.evidence.torch_build import TorchBuild
from ddpdoctor.evidence.variables import KnownNames
from ddpdoctor.render.facts import facts_of

LOOPBACK = Interface(name="lo", up=True, loopback=True, virtual=True, mtu=65536)
BRIDGE = Interface(name="docker0", up=True, virtual=True, mtu=1500)
ETHERNET = Interface(name="eth0", up=True, mtu=9000, speed_mbit=25_000)
PORT = InfinibandPort(
    device="mlx5_0",
    port=1,
    state="ACTIVE",
    physical_state="LinkUp",
    rate="400 Gb/sec (4X NDR)",
    link_layer="InfiniBand",
)


def shown(*per_rank: object) -> dict[str, str]:
    """The facts of a job whose rank N knows `per_rank[N]`."""
    ranks = tuple(RankFacts(rank=rank, host="host-a", facts=(fact,)) for rank, fact in enumerate(per_rank))
    facts = dict(facts_of(Evidence(ranks=ranks)))
    assert facts.pop("host") == "host-a"
    return facts


def network(*interfaces: Interface) -> Network:
    return Network(hostname="host-a", hostname_addresses=("10.0.0.1",), interfaces=interfaces)


def test_the_files_and_versions_that_torch_loads() -> None:
    torch = TorchBuild(version="2.13.0", cuda="13.0", cudnn=91002, libcuda="/usr/lib/libcuda.so.580.65.06")
    assert shown(torch) == {
        "torch": "2.13.0",
        "cuda": "13.0",
        "cudnn": "91002",
        "libcuda": "/usr/lib/libcuda.so.580.65.06",
    }


def test_the_architecture_where_it_differs_between_ranks() -> None:
    assert shown(Host(architecture="x86_64"), Host(architecture="aarch64")) == {
        "architecture": "x86_64 (rank 0); aarch64 (rank 1)"
    }


def test_shared_memory_with_what_is_free() -> None:
    memory = SharedMemory(size_bytes=64 << 30, free_bytes=16 << 30)
    assert shown(memory) == {"shared memory": "64.0 GiB, 16.0 GiB free"}


def test_the_interfaces_that_lead_out_of_the_host() -> None:
    assert shown(network(LOOPBACK, BRIDGE, ETHERNET)) == {"network": "eth0 (25000 Mbit/s, MTU 9000)"}


def test_in_a_container_the_virtual_interfaces_are_shown() -> None:
    assert shown(network(LOOPBACK, BRIDGE)) == {"network": "docker0 (unknown speed, MTU 1500)"}
    assert shown(network(LOOPBACK)) == {}


def test_infiniband_ports_are_told_from_roce() -> None:
    assert shown(Infiniband(ports=(PORT,))) == {"infiniband": "mlx5_0:1 (InfiniBand, 400 Gb/sec (4X NDR), ACTIVE)"}
    assert shown(Infiniband(ports=())) == {}


def test_variables_that_no_library_could_be_asked_about() -> None:
    names = KnownNames(read=(), unjudged={"NCCL_DEBUG": "no libnccl on this host"})
    assert shown(names) == {"variables not checked": "NCCL_DEBUG (no libnccl on this host)"}
    assert shown(KnownNames(read=())) == {}
