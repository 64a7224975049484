"""Readers of what a rank shows while it runs, or leaves behind: agent files, recorder dumps, stacks, exits."""
