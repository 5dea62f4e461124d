"""Random harm at random instants to real runs, and what has to be true after it (scripts/chaos)."""
