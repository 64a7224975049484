"""Launch scripts, settings and environments of ranks, and where they contradict each other."""
