"""Stand-ins for what a slice cannot have: packages that are not installed, files that are not there, required options.

The source of these modules goes, without its types, into a function at the top of a slice that needs it, so that the
slice runs with torch alone (preludes.py).
"""
