"""The steps of all ranks beside each other; a trace that ends too early lacks the weights of its last step."""

from ddpdoctor.analysis.replicas.aligned_steps import aligned
from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence, RankFacts
from ddpdoctor.evidence.audited_steps import StepSeen
from ddpdoctor.evidence.training_trace import Table, Track


def track(after: str, *recorded: str) -> Track:
    """Two steps of a rank whose weights are w0, w1 and `after`, of which only those `recorded` are in the trace."""
    weights = ("w0", "w1", after)
    return Track(
        method="linear",
        every=1,
        interval=1,
        start="w0",
        tables={key: Table(digests={"w": key}, shapes={"w": (1,)}) for key in recorded},
        steps_made=2,
        forwards_made=2,
        steps=tuple(
            StepSeen(step=n, forwards=n + 1, since=0, weights=weights[n], after=weights[n + 1], settings={})
            for n in range(2)
        ),
    )


def test_a_step_without_its_weights_is_not_compared() -> None:
    tracks = {0: track("w2", "w0", "w1", "w2"), 1: track("other", "w0", "w1")}
    assert [seen[0].step for seen in aligned(tracks)] == [0]


def test_no_check_fails_on_a_trace_that_ends_too_early() -> None:
    ranks = (
        RankFacts(rank=0, host="a", facts=(track("w2", "w0", "w1", "w2"),)),
        RankFacts(rank=1, host="a", facts=(track("other", "w0", "w1"),)),
    )
    report = diagnose(Evidence(ranks=ranks, about_job=True))
    assert not report.crashed
    assert not report.findings
