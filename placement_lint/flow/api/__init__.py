"""PyTorch's names, as tables, and the bounds of the analysis."""
