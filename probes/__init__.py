"""Programs that a launcher runs on every rank, one measurement a file; rank 0 reports in JSON lines (see rank.py)."""
