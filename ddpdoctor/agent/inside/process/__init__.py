"""The rank's process from its start to its end: how it ended, and what it answers while it runs."""
