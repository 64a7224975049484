"""A rank's calls over all process groups beside those of ranks with the same part in the job."""
