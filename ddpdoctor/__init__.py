"""Diagnose PyTorch DistributedDataParallel jobs: the rank, the line, the cause and the cure."""

from __future__ import annotations

__version__ = "0.1.0"
