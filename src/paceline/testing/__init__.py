"""For our tests and the users': faults in real processes and between machines."""
