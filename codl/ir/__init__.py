"""The network as data: tensors, operators, the graph, and the region rules."""
