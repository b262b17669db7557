"""What several packages share: errors, messages, files, workers, statistics. It knows nothing of learning."""
