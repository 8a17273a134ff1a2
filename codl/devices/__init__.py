"""OpenCL: finding drivers, talking to devices, sharing memory, waiting, timing."""
