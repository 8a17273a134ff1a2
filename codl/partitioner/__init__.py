"""Deciding: which device computes what."""
