"""Measure the success rate of a run, or of a model trained elsewhere."""

import json
import sys
from dataclasses import dataclass

from rlher.config.key import output_key
from rlher.config.saved_model import ReplayConfig
from rlher.core.console import escape_control


@dataclass
class EvaluateConfig(ReplayConfig):
    """Config keys of `rlher evaluate`."""

    episodes: int = output_key(100, "number of episodes", low=1)


def run(config: EvaluateConfig) -> int:
    """Play episodes with a model and print their success rate and return.

    :raises UserError: the run, or a readable model in it, does not exist.
    """
    from rlher.evaluation.metrics import format_summary
    from rlher.evaluation.rollout import evaluate_policy
    from rlher.evaluation.source import find_source

    source = find_source(config)
    agent = source.load(None)
    print(escape_control(f"{source.name}, seeds {config.seed}…{config.seed + config.episodes - 1}"), file=sys.stderr)
    summary = evaluate_policy(agent.env, agent.policy, config.episodes, config.seed)
    agent.env.close()
    if config.json:
        print(json.dumps({**source.keys, **summary}))
    else:
        print(format_summary(summary))
    return 0
