"""What PyTorch and other libraries do to abstract values: one file for each of their parts."""
