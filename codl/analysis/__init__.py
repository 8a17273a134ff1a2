"""Explains plans: predictions for every operator, what it lost to, lower bounds, what-if."""
