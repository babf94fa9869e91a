"""The files around the one being checked: the targets of imports, and the definitions of a file.

Nothing here depends on libcst's trees or torch: a file is an index of its top level and the text of its statements.
"""
