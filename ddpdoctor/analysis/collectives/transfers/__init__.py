"""Sends and receives: who waits for which partner, and which of the two is wrong."""
