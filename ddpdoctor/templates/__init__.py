"""Texts of the launch scripts that `ddpdoctor init` writes."""
