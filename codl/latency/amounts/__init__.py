"""Amounts of work that take time, read off a launch's description."""
