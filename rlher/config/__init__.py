"""The config keys of every command: types, defaults, ranges and what each key affects."""
