"""What a command does over time, from its start to the evidence that is judged."""
