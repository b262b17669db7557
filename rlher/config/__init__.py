"""The config keys of every command, with types, defaults and ranges, and configs composed from files and overrides."""
