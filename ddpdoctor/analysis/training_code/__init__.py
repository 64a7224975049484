"""What follows from the facts about training code: who calls whom, and which calls all ranks make."""
