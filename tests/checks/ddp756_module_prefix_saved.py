"""Training programs with DDP756 module-prefix-saved, and healthy ones."""

from tests.checks import Sick
from tests.training_programs import training

LOADS = (
    "    ddp = DDP(model",
    '    model.load_state_dict(torch.load("last.pt", map_location="cpu"))\n    ddp = DDP(model',
)

SICK = (
    Sick(
        evidence=training(LOADS, ("ddp.module.state_dict()", "ddp.state_dict()")),
        says=(
            "ddp.state_dict() has keys that begin with `module.`, and "
            'model.load_state_dict(torch.load("last.pt", map_location="cpu")) in line 40 loads into the '
            "model without its wrapper, which has none"
        ),
        where=("train.py:57 main", "train.py:40 main"),
    ),
)
HEALTHY = (
    training(LOADS),
    training(("ddp.module.state_dict()", "ddp.state_dict()")),
)
