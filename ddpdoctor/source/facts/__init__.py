"""The facts about functions that rules ask for: calls, loops, changes and exits, each with the tests around it."""
