"""One rule a file: `RULE`, its thresholds with their reason, and `check(evidence...)`, a pure function to findings."""
