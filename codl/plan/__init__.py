"""The plan as data: which device computes what, and the laws a plan keeps."""
