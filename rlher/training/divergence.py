"""When training counts as diverged."""

from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

from rlher.core.errors import RunError
from rlher.run.model_file import all_finite


def require_finite(model: OffPolicyAlgorithm) -> None:
    """Raise RunError if training diverged: a weight or statistic of the policy is not finite."""
    if not all_finite(model):
        raise RunError(
            f"training diverged: weights are not finite after {model.num_timesteps:,} steps, so only the best model is "
            "kept; use a smaller algo.learning_rate or set algo.target_q_bounds."
        )
