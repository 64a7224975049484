"""Training programs with DDP727 backend-does-not-fit, and healthy ones."""

from tests.checks import Sick
from tests.training_programs import training

SICK = (
    Sick(
        evidence=training(('init_process_group("nccl")', 'init_process_group("gloo")')),
        says=(
            "the gradients of a model on GPUs go over gloo, through the CPU: it works and is many times "
            "slower than nccl"
        ),
        where=("train.py:27 main", "train.py:40 main"),
    ),
)
HEALTHY = (
    training(('init_process_group("nccl")', 'init_process_group("nccl" if torch.cuda.is_available() else "gloo")')),
)
