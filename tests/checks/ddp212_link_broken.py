from ddpdoctor.evidence.links import Group, Groups
from tests.checks import Sick, job
from tests.checks.matrices import matrix


def groups(*bad: set[int]) -> Groups:
    """Every pair of three nodes and all three, of which `bad` time out."""
    return Groups(
        nodes=(0, 1, 2),
        groups=tuple(
            Group(nodes=nodes, failed=dict.fromkeys(nodes, "Connect timeout") if {*nodes} in bad else {})
            for nodes in ((0, 1), (1, 2), (0, 2), (0, 1, 2))
        ),
    )


SICK = (
    Sick(
        evidence=job(matrix(3, lambda a, b: "filtered" if (a, b) == (0, 2) else "ok")),
        says="host-0 to host-2: filtered in this direction only (10.0.0.3:40000: no answer in time)",
        ranks=(0, 2),
        hosts=("host-0", "host-2"),
    ),
    Sick(
        evidence=job(matrix(5, lambda a, b: "refused" if {a, b} == {1, 3} else "ok")),
        says="host-1 and host-3: refused in both directions (10.0.0.4:40000: no answer in time)",
        ranks=(1, 3),
    ),
    Sick(
        evidence=job(matrix(6, lambda a, b: "filtered" if (a < 2) != (b < 2) else "ok")),
        says="nothing gets through between host-0, host-1 and host-2, host-3, host-4, host-5, and each side talks within itself",
        ranks=(0, 1, 2, 3, 4, 5),
    ),
    Sick(  # TCP passes, gloo does not: it takes another address
        evidence=job(matrix(3), groups({0, 1}, {1, 2})),
        says="host-1 forms no gloo group with host-0 and host-2, while TCP connections pass (Connect timeout)",
        ranks=(1,),
        hosts=("host-1",),
    ),
    Sick(
        evidence=job(matrix(3), groups({0, 2})),
        says="host-0 and host-2 form no gloo group, while TCP connections pass (Connect timeout)",
        ranks=(0, 2),
    ),
    Sick(
        evidence=job(matrix(3), groups({0, 1, 2})),
        says="the 3 nodes form no gloo group together, and each two neighbours do, while TCP connections pass (Connect timeout)",
    ),
    Sick(
        evidence=job(matrix(2), Groups(nodes=(0, 1), groups=(Group(nodes=(0, 1), hung=(1,)),))),
        says="the 2 nodes form no gloo group together, while TCP connections pass (it hangs)",
        ranks=(0, 1),
    ),
)
HEALTHY = (job(matrix(3), groups()), job(matrix(2)), job(matrix(5)))
