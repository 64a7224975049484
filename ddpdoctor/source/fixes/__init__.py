"""Corrections of what `lint` found: which can be made, and the text with them. All other text stays as it is."""
