"""Config schema, errors, files and statistics that every other package uses."""
