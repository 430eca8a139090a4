"""The input of a verb of the command line: options, configuration, receipts, keys, and lines of JSON.

Enter: command-line options, the environment, a TOML file, standard input. Leave: checked values, an open store or
client, or a `UsageError`.

Read `arguments` first (how a verb is added, and how durations and times are parsed), then `settings` (where each
value of the configuration comes from) and `stores` (which store a verb works on). `named_messages` reads receipts and
keys, `json_lines` messages, and `publish_options` has the options of these and of the command line.
"""
