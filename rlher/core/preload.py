"""Imported by the server of worker processes before anything else, so that its other imports take less time."""

from rlher.core.garbage import postpone_collections

postpone_collections()
