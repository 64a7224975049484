from ddpdoctor.evidence.links import Groups, NetGroup
from tests.checks import Sick, job
from tests.checks.matrices import matrix


def groups(*bad: set[int]) -> Groups:
    """Every pair of three nodes and all three, of which `bad` time out."""
    return Groups(
        nodes=(0, 1, 2),
        groups=tuple(
            NetGroup(nodes=nodes, failed=dict.fromkeys(nodes, "Connect timeout") if {*nodes} in bad else {})
            for nodes in ((0, 1), (1, 2), (0, 2), (0, 1, 2))
        ),
    )


SICK = (
    Sick(
        evidence=job(matrix(3, lambda a, b: "filtered" if (a, b) == (0, 2) else "ok")),
        says="host-0 to host-2: filtered in this direction only (10.0.0.3:40000: no answer in time)",
        ranks=(0, 2),
        hosts=("host-0", "host-2"),
        measured={"outcome": "filtered", "directions": [[0, 2]]},
    ),
    Sick(
        evidence=job(matrix(5, lambda a, b: "refused" if {a, b} == {1, 3} else "ok")),
        says="host-1 and host-3: refused in both directions (10.0.0.4:40000: no answer in time)",
        ranks=(1, 3),
        hosts=("host-1", "host-3"),
        measured={"outcome": "refused", "directions": [[1, 3], [3, 1]]},
    ),
    Sick(
        evidence=job(matrix(6, lambda a, b: "filtered" if (a < 2) != (b < 2) else "ok")),
        says="no connection between host-0, host-1 and host-2, host-3, host-4, host-5 works, but each side is connected "
        "within itself",
        ranks=(0, 1, 2, 3, 4, 5),
        hosts=("host-0", "host-1", "host-2", "host-3", "host-4", "host-5"),
    ),
    Sick(  # TCP passes, gloo does not: it takes another address
        evidence=job(matrix(3), groups({0, 1}, {1, 2})),
        says="host-1 cannot form a gloo group with host-0 and host-2, although TCP connections work (Connect timeout)",
        ranks=(1,),
        hosts=("host-1",),
        measured={
            "hung": [],
            "said": {"host-0": "Connect timeout", "host-1": "Connect timeout", "host-2": "Connect timeout"},
        },
    ),
    Sick(
        evidence=job(matrix(3), groups({0, 2})),
        says="host-0 and host-2 cannot form a gloo group, although TCP connections work (Connect timeout)",
        ranks=(0, 2),
        hosts=("host-0", "host-2"),
        measured={"hung": [], "said": {"host-0": "Connect timeout", "host-2": "Connect timeout"}},
    ),
    Sick(
        evidence=job(matrix(3), groups({0, 1, 2})),
        says="the 3 nodes cannot form one gloo group, although each pair of neighbours can, although TCP connections "
        "work (Connect timeout)",
        measured={
            "hung": [],
            "said": {"host-0": "Connect timeout", "host-1": "Connect timeout", "host-2": "Connect timeout"},
        },
    ),
    Sick(
        evidence=job(matrix(2), Groups(nodes=(0, 1), groups=(NetGroup(nodes=(0, 1), hung=(1,)),))),
        says="the 2 nodes cannot form one gloo group, although TCP connections work (it hangs)",
        ranks=(0, 1),
        hosts=("host-0", "host-1"),
        measured={"hung": [1], "said": {}},
    ),
)
HEALTHY = (job(matrix(3), groups()), job(matrix(2)), job(matrix(5)))
