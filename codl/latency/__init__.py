"""Predicts how long kernels, copies and meetings take on a device, from its profile."""
