"""The verbs of the `delaymq` command, one module each; `delaymq.cli.spark` has those of `delaymq spark`.

Enter: the parsed command line. Leave: lines on standard output, and an exit code.

Each module has `add_to`, which adds the verb to the parser, and `run`, which runs it. Read `status` first: it is
short, and shows how a verb finds its store and prints a result.
"""
