"""The HTML report of `rlher report`: one self-contained page."""
