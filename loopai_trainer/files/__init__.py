"""Floor 3: what this program reads and writes."""
