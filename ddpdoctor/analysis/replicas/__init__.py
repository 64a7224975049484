"""Where the replicas of a model differ, since which step, and through which line."""
