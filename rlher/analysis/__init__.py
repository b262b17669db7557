"""Read many runs, and make learning curves, comparison tables, pictures and the HTML report."""
