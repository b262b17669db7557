"""What several packages share: errors, messages, files, workers, statistics. It imports no other package of rlher."""
