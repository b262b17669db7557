"""`rlher evaluate`: a run's success rate, measured again."""

import json
import sys

from rlher import runs
from rlher.agent import load_agent
from rlher.config import EvaluateConfig
from rlher.evaluation import evaluate_policy, sentence
from rlher.runs import model_name


def evaluate(config: EvaluateConfig) -> int:
    """Play episodes with a run's model and print what came of them.

    :raises UserError: no such run, or no readable model in it.
    """
    run = runs.find(config.run, config.logs)
    which = run.choose(config.checkpoint, ("last", "best"))
    agent = load_agent(run, which, config.device, config.deterministic, render_mode=None)
    print(
        f"{run.folder}, {model_name(which)}, seeds {config.seed}…{config.seed + config.episodes - 1}",
        file=sys.stderr,
    )
    summary = evaluate_policy(agent.env, agent.policy, config.episodes, config.seed).summary()
    agent.env.close()
    if config.json:
        print(json.dumps({"run": str(run.folder), "checkpoint": which, **summary}))
    else:
        print(sentence(summary))
    return 0
