"""Read many runs: learning curves, comparison tables, pictures and the HTML report."""
