"""Measure the success rate of a run, or of a model trained elsewhere."""

import json
import sys
from contextlib import closing
from dataclasses import dataclass

from rlher.config.commands import ReplayConfig
from rlher.config.key import MAX_EPISODES, output_key
from rlher.core.console import escape_control


@dataclass
class EvaluateConfig(ReplayConfig):
    """Config keys of `rlher evaluate`."""

    episodes: int = output_key(100, "number of episodes", low=1, high=MAX_EPISODES)


def run(config: EvaluateConfig) -> int:
    """Play episodes with a model and print their success rate and return.

    :raises UserError: the run, or a readable model in it, does not exist.
    """
    from rlher.evaluation.agent import find_source
    from rlher.evaluation.metrics import format_summary, summarize
    from rlher.evaluation.rollout import play_episodes, with_bar

    source = find_source(config)
    agent = source.load(None)
    print(escape_control(f"{source.name}, seeds {config.seed}…{config.seed + config.episodes - 1}"), file=sys.stderr)
    with closing(agent.env):
        episodes = play_episodes(agent.env, agent.policy, config.episodes, config.seed)
        summary = summarize(list(with_bar(episodes, config.episodes)))
    if config.json:
        print(json.dumps({**source.keys, **summary}))
    else:
        print(format_summary(summary))
    return 0
