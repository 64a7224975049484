"""Bandwidths, stragglers and the figures that measurements are compared with."""
