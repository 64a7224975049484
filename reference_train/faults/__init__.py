"""One file a fault: each makes the known-good job sick in one way."""
