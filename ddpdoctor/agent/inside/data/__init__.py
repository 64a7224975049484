"""What a rank trains on: which samples its loaders draw, from which data set, and which share of it."""
