"""Pictures of every terminal screen for the documentation, made anew by `python -m tests.pictures`."""
