"""Small machines that listen while a program runs, and tell what they have seen in it."""
