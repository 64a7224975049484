"""Training programs with DDP733 collective-in-handler, and healthy ones."""

from tests.checks import Sick
from tests.training_programs import training

SICK = (
    Sick(
        evidence=training(
            (
                ('            torch.save(ddp.module.state_dict(), "last.pt")\n        dist.barrier()\n'),
                (
                    '            torch.save(ddp.module.state_dict(), "last.pt")\n'
                    "        try:\n"
                    "            os.stat('stop')\n"
                    "        except OSError:\n"
                    "            dist.barrier()\n"
                ),
            )
        ),
        says=("barrier in `except OSError` (line 59): a rank that meets the exception waits for those that do not"),
        where=("train.py:60 main",),
    ),
)
HEALTHY = (
    training(
        (
            ('            torch.save(ddp.module.state_dict(), "last.pt")\n        dist.barrier()\n'),
            (
                '            torch.save(ddp.module.state_dict(), "last.pt")\n'
                "        try:\n"
                "            os.stat('stop')\n"
                "        except OSError:\n"
                "            pass\n"
                "        dist.barrier()\n"
            ),
        )
    ),
)
