"""Measures a device: kernels over a workload, sharing, meetings, and how devices slow each other down."""
