"""The cases of `delaymq bench`, one module for each family of rows.

Enter: whether the run is a quick one, or the scale. Leave: cases, each with a measurement of delaymq, a measurement of
what the machine allows, and the marks to reach.

Read `wheel` first: it is the shortest. `delaymq.bench.runs` names all cases.
"""
