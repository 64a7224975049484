"""Readers of the world: each module's `collect(world)` gives evidence, or `Missing` with the reason why it could not."""
