"""A model card: what the agent is, how well it does, how it was made. Markdown, with the front matter of model hubs."""

import re
from typing import Any

import yaml

from rlher.config.key import experiment_keys
from rlher.core.errors import UserError
from rlher.core.safe_read import read_json, read_text
from rlher.evaluation.export.sb3_model import Plain
from rlher.evaluation.metrics import format_cells
from rlher.runs.run_folder import Run

MOST_WORDS = 500
"""Letters of what a folder says of itself within a sentence."""

CARD = """{front}
# {algo} on {env}

An agent for the goal environment `{env}`, trained for {steps:,} environment steps with {algo} and {her}.
{replay}
## How well it does

{table}

{episodes} episodes from seed {seed} on, none of which any model was chosen by. The interval (95 %, Wilson) is that of \
these episodes. It is one training run, with seed {run_seed}: how others would end is not known from it.

## Use it

```sh
pip install -r requirements.txt
python play.py
```

`play.py` builds the model by its constructor, takes the weights from `{file}` and plays an episode{scaled}. The zip \
is a plain model of {library}: `{algo}.load("{file}")` reads it too, which, as always, runs the pickles in it.
{notes}
## How it was made

{command}

with {versions}. The settings, defaults written out:

{settings}
"""


def model_card(run: Run, plain: Plain, measured: dict[str, Any], file: str, notes: list[str], replay: bool) -> str:
    """Compose the card.

    :param measured: a summary of :class:`~rlher.evaluation.rollout.Evaluation`, with ``timesteps`` of training, and the
        ``seed`` of its first episode.
    :param file: name of the model's zip.
    :param notes: what is to be known of the files, a sentence each.
    :param replay: whether there is a ``replay.mp4``.
    """
    config = run.config
    command, versions = _origin(run)
    her = config.her
    strategy = f"hindsight experience replay ({her.goal_selection_strategy}, {her.n_sampled_goal} goals a transition)"
    return CARD.format(
        front=_front_matter(run, plain, measured),
        algo=_algo(plain),
        env=_env(run),
        steps=measured["timesteps"],
        her=_words(strategy) if her.n_sampled_goal else "plain replay, without hindsight",
        replay='\n<video src="replay.mp4" controls autoplay loop muted></video>\n' if replay else "",
        table=_table(measured),
        episodes=measured["episodes"],
        seed=measured["seed"],
        run_seed=config.seed,
        file=file,
        scaled=", its observations scaled with `normalizer.npz`" if config.normalize.enabled else "",
        library=_library(plain),
        notes="".join(f"\n* {note}" for note in notes) + "\n" if notes else "",
        command=_fenced("sh", command),
        versions=_words(versions),
        settings=_fenced("yaml", yaml.safe_dump(experiment_keys(config), sort_keys=False)),
    )


def _origin(run: Run) -> tuple[str, str]:
    """Return what was typed, and the versions from ``meta.json``."""
    command, meta = read_text(run.folder / "command.txt").strip(), read_json(run.folder / "meta.json")
    try:
        commit = f" (commit {meta['git']['commit'][:10]})" if meta["git"] else ""
        ours, *others = [f"{name} {version}" for name, version in dict(meta["packages"]).items() if version]
        versions = f"Python {meta['python']}, {ours}{commit}, {', '.join(others)}"
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{run.folder} cannot say how it was made: meta.json is damaged.") from error
    return command, versions


def _fenced(language: str, text: str) -> str:
    """Return a block of code that ends where it should, whatever is in it."""
    fence = "`" * max([3, *(len(ticks) + 1 for ticks in re.findall("`+", text))])
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def _words(text: str) -> str:
    """Return a text without what Markdown or HTML would read as more than words."""
    return re.sub(r"[^\w .,:()/+-]+", "-", text)[:MOST_WORDS]


def _front_matter(run: Run, plain: Plain, measured: dict[str, Any]) -> str:
    metrics = [
        {"type": "success_rate", "name": "success rate", "value": measured["success_rate"], "verified": False},
        {"type": "mean_reward", "name": "mean return", "value": measured["mean_reward"], "verified": False},
    ]
    task = {"type": "reinforcement-learning", "name": "reinforcement-learning"}
    dataset = {"name": _env(run), "type": _env(run)}
    result = {"task": task, "dataset": dataset, "metrics": metrics}
    tags = [_env(run), "deep-reinforcement-learning", "reinforcement-learning", "stable-baselines3"]
    matter = {
        "library_name": "stable-baselines3",
        "pipeline_tag": "reinforcement-learning",
        "tags": [*tags, "hindsight-experience-replay", "goal-conditioned"],
        "model-index": [{"name": _algo(plain), "results": [result]}],
    }
    return f"---\n{yaml.safe_dump(matter, sort_keys=False)}---\n"


def _table(measured: dict[str, Any]) -> str:
    columns = {**format_cells(measured), "episodes": str(measured["episodes"]), "training runs": "1"}
    rows = [columns.keys(), ["--"] * len(columns), columns.values()]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _algo(plain: Plain) -> str:
    return type(plain.model).__name__


def _library(plain: Plain) -> str:
    return {"stable_baselines3": "Stable-Baselines3", "sb3_contrib": "sb3-contrib"}[
        type(plain.model).__module__.partition(".")[0]
    ]


def _env(run: Run) -> str:
    return _words(run.config.env.name or run.config.env.id)
