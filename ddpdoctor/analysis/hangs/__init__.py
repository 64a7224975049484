"""What each rank does while a job makes no progress, and which rank blocks the others."""
