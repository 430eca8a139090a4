"""A second reader of delaymq's files, written from docs/format.md alone.

It shares no code with delaymq and never imports it; what both read must be equal.
"""
