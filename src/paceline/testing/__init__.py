"""For our tests and the users': faults in real processes, and what they must not change."""
