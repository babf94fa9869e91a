"""Python's statements, expressions, calls and attributes on abstract values."""
