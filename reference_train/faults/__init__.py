"""One file per fault: each makes the reference job sick in one way."""
