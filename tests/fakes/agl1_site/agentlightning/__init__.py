"""A stand-in for Agent Lightning 1.x: the three programs that its driver starts, telling what they were told."""
