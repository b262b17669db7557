"""Write tests/data/rliable.json: scores and the statistics rliable computes from them, for tests/core/test_stats.py.

rliable 1.2 needs arch<8, which cannot be imported with pandas 3, so the tests do not depend on it:
    python -m venv /tmp/rliable && /tmp/rliable/bin/pip install rliable==1.2.0 "pandas<3"
    /tmp/rliable/bin/python scripts/reference_rliable.py
"""

import json
from pathlib import Path

import numpy as np
from rliable import library, metrics


def main() -> None:
    """Write the reference file."""
    rng = np.random.default_rng(3)
    better, worse = rng.beta(4, 2, (10, 3)).round(2), rng.beta(3, 3, (8, 3)).round(2)
    np.random.seed(0)  # its bootstrap uses NumPy's global generator and ignores random_state
    points, intervals = library.get_interval_estimates(
        {"iqm": better, "improvement": (better, worse)}, lambda *x: np.array([statistic(*x)]), reps=20_000
    )
    gap, gap_interval = library.get_interval_estimates(
        {"gap": better}, lambda x: np.array([metrics.aggregate_optimality_gap(x)]), reps=20_000
    )
    points, intervals = points | gap, intervals | gap_interval
    reference = {
        "better": better.tolist(),
        "worse": worse.tolist(),
        "points": {name: float(point[0]) for name, point in points.items()},
        "intervals": {name: ends[:, 0].tolist() for name, ends in intervals.items()},
    }
    path = Path(__file__).parent.parent / "tests" / "data" / "rliable.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(reference, indent=1) + "\n")


def statistic(*scores: np.ndarray) -> float:
    """Return the IQM of one array of scores, the probability of improvement of two."""
    return metrics.aggregate_iqm(*scores) if len(scores) == 1 else metrics.probability_of_improvement(*scores)


if __name__ == "__main__":
    main()
