"""Every verb of a store once: its checks, the call that it makes, what becomes of the answer, and its two methods.

Enter: the arguments of a public method. Leave: a `Call`, or the error for the argument that is refused; and later, from
the answer of the core, the result of the method.

`calls` says what a call is, and which methods run one. The other modules have the verbs by subject. A verb is a
function with the name of the method, and a method of two classes: threads wait for the call in the one, coroutines
await it in the other. `methods` puts these classes together. A store in this process and a client inherit the same
methods, and carry their calls in two ways: `answered` in `calls`, and `delaymq.client.commands`.
"""
