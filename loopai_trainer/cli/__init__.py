"""The command line: one file a verb; parse, one operation, one view."""
