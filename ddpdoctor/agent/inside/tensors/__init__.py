"""Tensors read at memory bandwidth: fingerprints, parities and projections, of many tensors at once."""
