"""The kinds of divergence, one type each, by what diverges; `analysis/replicas/divergence.py` has the union of them."""
