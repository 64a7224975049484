"""Iterations, batches and passes over the data: which rank has made more, fewer or other ones."""
