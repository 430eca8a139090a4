"""Every verb of a store once: its checks, the call that it makes, and what becomes of the answer.

Enter: the arguments of a public method. Leave: a `Call`, or the error for the argument that is refused; and later, from
the answer of the core, the result of the method.

`calls` says what a call is, and which methods run one. The other modules have the verbs by subject, as functions with
the names of the methods. There are two carriers of a call: the store in this process (`answered` in `calls`) and a
client (`delaymq.client.commands`). Threads wait in the one or the other, coroutines await it. So a verb is no method of
four classes: each of them has one line, which runs the verb, below a signature for editors and a docstring.
"""
