"""The output of a verb of the command line, for people at a terminal and for pipes.

Enter: results of a verb. Leave: tables, bars and colours on a terminal; plain text in a pipe or with NO_COLOR.

Read `terminal` first (tables, bars, units), then `streams` (standard streams that are closed, full or of another
encoding). `figures` is the table of `delaymq bench`, `group_of_copies` the output of `delaymq cluster`,
`held_space` a part of `delaymq inspect`.
"""
