"""A second module that nobody wrapped."""

from __future__ import annotations

from ddpdoctor.analysis.replicas.divergences.gradients import ParameterOutside
from tests.checks import Sick
from tests.checks.divergent import found

SICK = (
    Sick(
        evidence=found(ParameterOutside(step=0, ranks=(0, 1), tensors=("head.weight",), total=10)),
        says="from step 0 of 40 on, 1 of 10 parameters (head.weight) of the optimizer are in no wrapped module, "
        "and their gradients differ between ranks",
        ranks=(0, 1),
        measured={"step": 0, "tensors": ["head.weight"], "cause": ""},
    ),
)
HEALTHY = (found(),)
