"""`rlher evaluate`: a run's success rate, measured again, or that of a model from elsewhere."""

import json
import sys

from rlher.config.saved_model import EvaluateConfig
from rlher.core.console import escape_control
from rlher.evaluation.metrics import format_summary
from rlher.evaluation.rollout import evaluate_policy
from rlher.evaluation.source import find_source


def evaluate(config: EvaluateConfig) -> int:
    """Play episodes with a model and print what came of them.

    :raises UserError: no such run, or no readable model in it.
    """
    source = find_source(config, ("last", "best"))
    agent = source.load(None)
    print(escape_control(f"{source.name}, seeds {config.seed}…{config.seed + config.episodes - 1}"), file=sys.stderr)
    summary = evaluate_policy(agent.env, agent.policy, config.episodes, config.seed)
    agent.env.close()
    if config.json:
        print(json.dumps({**source.keys, **summary}))
    else:
        print(format_summary(summary))
    return 0
