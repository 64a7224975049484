"""Which forwards record no gradients."""

from __future__ import annotations

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.evidence.training_code import Call, Context, Function

NO_GRADIENTS = ("no_grad", "inference_mode")
GRADIENTS = ("enable_grad", "set_grad_enabled")


def without_gradients(graph: CallGraph, function: Function, call: Call) -> bool:
    """Whether a call is made under `no_grad`: by itself, in its function, or wherever the function is called.

    The nearest of several such blocks decides: `enable_grad` in a function that is called under `no_grad`.
    """
    if (nearest := call.under(*NO_GRADIENTS, *GRADIENTS)) is not None:
        return _takes_gradients_away(nearest)
    decorators = [name for name in function.decorators if name.endswith((*NO_GRADIENTS, *GRADIENTS))]
    if decorators:
        return decorators[-1].endswith(NO_GRADIENTS)
    around = [way.under(*NO_GRADIENTS, *GRADIENTS) for _, way in graph.callers.get(function.id, ())]
    return bool(around) and all(each is not None and _takes_gradients_away(each) for each in around)


def _takes_gradients_away(context: Context) -> bool:
    """Whether nothing is recorded in a block: `no_grad()` and `set_grad_enabled(False)`, not `inference_mode(False)`."""
    return context.name.endswith(NO_GRADIENTS) != context.text.endswith(("(False)", "mode=False)"))
