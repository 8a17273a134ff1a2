"""Search: which kernel, with which parameters, is fastest for a shape on a device."""
