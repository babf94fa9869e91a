"""Abstract values, path conditions and the operations on them."""
