"""Demonstrations: scripted controllers, collecting episodes, and datasets in Minari's format."""
