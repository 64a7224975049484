"""torchrun as a program: `python -m torch.distributed.run` would import from the working directory, whoever wrote there."""

from __future__ import annotations

from torch.distributed.run import main

if __name__ == "__main__":
    main()
