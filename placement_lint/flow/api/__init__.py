"""What PyTorch calls things, as tables, and the bounds of the analysis."""
