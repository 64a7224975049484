"""Which collectives the ranks issued, where they disagree, and who is missing."""
