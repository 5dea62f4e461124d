"""Floor 2: what is right, as pure functions."""
