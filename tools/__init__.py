"""Tools of a checkout: they build benchmark networks, measure and test, and are not installed."""
