"""Readers of the world: each returns evidence, or says why it could not."""
