"""The known-good DDP job, and the same job made sick in one way at a time (faults/)."""
