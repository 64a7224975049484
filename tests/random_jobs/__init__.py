"""Jobs with random layouts, names, programs and faults, independent of `simulated_jobs`: dumps with a known truth."""
