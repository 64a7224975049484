"""Nodes that talk to each other to find the broken link: the wire, the meeting place, and what one node does."""
