"""The reference job of `ddpdoctor train` as curves and tables: accuracy, loss, parity, scaling."""

from __future__ import annotations

from dataclasses import dataclass

from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.training import ParityRun, ScalingRun, TrainingRun
from ddpdoctor.render.html.charts import Chart, Series, linear_axis


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveTable:
    """Rows under a header."""

    caption: str
    """What it shows, with units that columns do not name."""
    header: tuple[str, ...]
    """One text per column."""
    rows: tuple[tuple[str, ...], ...]
    """One tuple of texts per row, as long as `header`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSection:
    """What the reference job did."""

    sentence: str
    """What ran on how many ranks, and its result in numbers."""
    charts: tuple[Chart, ...]
    """Curves by epoch or by number of ranks; empty where there is one point only."""
    tables: tuple[CurveTable, ...]
    """The numbers behind them."""


def training_section(evidence: Evidence) -> TrainingSection | None:
    """The section; None where the reference job did not run."""
    run, parity, scaling = evidence.one(TrainingRun), evidence.one(ParityRun), evidence.one(ScalingRun)
    if run is not None:
        return TrainingSection(
            sentence=(
                f"{run.model} on {run.dataset}, {run.world_size} ranks, {run.backend} ({run.device}): accuracy "
                f"{100 * run.accuracy:.2f} % of {run.test_samples} samples after {len(run.epochs)} epochs, "
                f"{run.samples_per_second:.0f} samples/s, {run.seconds:.1f} s."
            ),
            charts=_curves(run),
            tables=(_epochs(run), *_phases(run)),
        )
    if parity is not None:
        return TrainingSection(
            sentence=(
                f"{parity.world_size} ranks compared with one process over {parity.steps} steps, {parity.backend} "
                f"({parity.device})."
            ),
            charts=(),
            tables=(_gates(parity),),
        )
    if scaling is not None:
        return TrainingSection(
            sentence=f"{scaling.model}, {scaling.backend} ({scaling.device}), {scaling.cores} cores.",
            charts=_scaling_curves(scaling),
            tables=(_points(scaling),),
        )
    return None


def _curves(run: TrainingRun) -> tuple[Chart, ...]:
    if len(run.epochs) < 2:
        return ()
    accuracy = [(float(epoch.epoch), 100 * epoch.accuracy) for epoch in run.epochs]
    loss = [(float(epoch.epoch), epoch.test_loss) for epoch in run.epochs if epoch.test_loss is not None]
    x = linear_axis("epoch", [at for at, _ in accuracy])
    charts = [
        Chart(
            title="Accuracy",
            sentence=f"Test accuracy by epoch, from {accuracy[0][1]:.1f} % to {accuracy[-1][1]:.1f} %.",
            x=x,
            y=linear_axis("test accuracy, %", [value for _, value in accuracy]),
            series=(Series(name="accuracy", points=accuracy, color=0),),
        )
    ]
    if len(loss) > 1:
        charts.append(
            Chart(
                title="Loss",
                sentence=f"Test loss by epoch, from {loss[0][1]:.3g} to {loss[-1][1]:.3g}.",
                x=x,
                y=linear_axis("test loss", [value for _, value in loss], from_zero=True),
                series=(Series(name="loss", points=loss, color=1),),
            )
        )
    return tuple(charts)


def _scaling_curves(scaling: ScalingRun) -> tuple[Chart, ...]:
    if len(scaling.points) < 2:
        return ()
    one = scaling.points[0]
    ideal = [(float(point.ranks), one.weak / one.ranks * point.ranks) for point in scaling.points]
    weak = [(float(point.ranks), point.weak) for point in scaling.points]
    strong = [(float(point.ranks), point.strong) for point in scaling.points]
    return (
        Chart(
            title="Throughput by number of ranks",
            sentence=(
                f"Weak scaling reaches {weak[-1][1]:.0f} samples/s on {scaling.points[-1].ranks} ranks, ideal is "
                f"{ideal[-1][1]:.0f}."
            ),
            x=linear_axis("ranks", [at for at, _ in weak]),
            y=linear_axis("samples/s", [value for _, value in (*weak, *strong, *ideal)], from_zero=True),
            series=(
                Series(name="weak", points=weak, color=0),
                Series(name="strong", points=strong, color=1),
                Series(name="ideal", points=ideal, color=3, style="dashed"),
            ),
        ),
    )


def _epochs(run: TrainingRun) -> CurveTable:
    return CurveTable(
        caption="Epochs",
        header=("epoch", "accuracy", "test loss", "seconds"),
        rows=tuple(
            (
                str(epoch.epoch),
                f"{100 * epoch.accuracy:.2f} %",
                "not finite" if epoch.test_loss is None else f"{epoch.test_loss:.4f}",
                f"{epoch.seconds:.1f}",
            )
            for epoch in run.epochs
        ),
    )


def _phases(run: TrainingRun) -> tuple[CurveTable, ...]:
    if not run.phases:
        return ()
    total = sum(run.phases.values()) or 1.0
    rows = tuple((name, f"{seconds:.2f}", f"{seconds / total:.0%}") for name, seconds in run.phases.items())
    return (CurveTable(caption="Time of rank 0 by phase of a step", header=("phase", "seconds", "share"), rows=rows),)


def _gates(parity: ParityRun) -> CurveTable:
    return CurveTable(
        caption="Comparisons",
        header=("what", "difference", "allowed", "result"),
        rows=tuple(
            (
                gate.name,
                "not finite" if gate.measured is None else f"{gate.measured:.3g}",
                f"{gate.allowed:.3g}",
                "passed" if gate.passed else "failed",
            )
            for gate in parity.gates
        ),
    )


def _points(scaling: ScalingRun) -> CurveTable:
    return CurveTable(
        caption="Throughput",
        header=("ranks", "weak, samples/s", "strong, samples/s", "overlap"),
        rows=tuple(
            (
                str(point.ranks),
                f"{point.weak:.0f}",
                f"{point.strong:.0f}",
                "not measured" if point.overlap is None else f"{point.overlap:.0%}",
            )
            for point in scaling.points
        ),
    )
