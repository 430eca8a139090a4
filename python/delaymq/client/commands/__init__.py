"""The requests that a client makes of a call, and the results that it makes of the server's answers.

Enter: a call of `delaymq._verbs`, or the arguments of a publish. Leave: requests of at most 10,000 messages each, and
results or errors as `delaymq.Store` gives them.

Read `publishing` first (ids for lost answers), then `carrying` (how a call for many messages is divided, and a list
read in parts).
"""
