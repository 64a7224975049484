"""Reads checkpoints that others wrote, without running anything in them, and compares them tensor by tensor."""
