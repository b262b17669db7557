"""What a new goal does to reward and done."""
RELABEL_DONE = ("auto", "keep", "success", "never")
