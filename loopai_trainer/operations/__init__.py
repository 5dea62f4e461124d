"""Floor 6: one file a verb; each tells its story from top to bottom."""
