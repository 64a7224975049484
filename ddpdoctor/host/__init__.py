"""Readers of the host: limits, devices, network, processes. One reader per file."""
