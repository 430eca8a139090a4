"""A client of QMQ's protocol, written from a description of that protocol alone.

It shares no code with delaymq and never imports it. It can also send what no client should.
"""
