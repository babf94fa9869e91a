"""The files around the one being checked: where an import leads, and what a file defines.

Nothing here knows libcst's trees or torch: a file is an index of its top level and the text of its statements.
"""
