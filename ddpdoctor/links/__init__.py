"""Nodes that talk to each other to find the broken link: the wire, the messages, and what one node does."""
