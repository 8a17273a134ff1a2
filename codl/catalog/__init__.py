"""Which kernels exist, what they accept and how they are launched. Pure data: no OpenCL here."""
