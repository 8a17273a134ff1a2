"""Pricing: what a plan costs, from the latencies of its slices, its transfers and its synchronizations."""
