"""Configs of commands, composed from defaults, files of ``conf/``, a recipe, and the overrides of a user."""
