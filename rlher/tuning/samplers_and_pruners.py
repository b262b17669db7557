"""Samplers, which propose the parameters of trials, and pruners, which end bad trials early."""

from optuna.pruners import BasePruner, HyperbandPruner, MedianPruner, NopPruner
from optuna.samplers import BaseSampler, RandomSampler, TPESampler

from rlher.config.tuning import OptimizeConfig


def make_sampler(name: str, seed: int) -> BaseSampler:
    """Return the sampler of ``sampler=``."""
    if name == "random":
        return RandomSampler(seed)
    return TPESampler(seed=seed, multivariate=True, constant_liar=True)


def make_pruner(config: OptimizeConfig) -> BasePruner:
    """Return the pruner of ``pruner=``."""
    if config.pruner == "median":
        return MedianPruner(n_warmup_steps=config.n_evaluations // 3)
    if config.pruner == "hyperband":
        low = max(config.n_evaluations // 4, 1)
        return HyperbandPruner(min_resource=low, max_resource=config.n_evaluations * config.n_seeds)
    return NopPruner()
