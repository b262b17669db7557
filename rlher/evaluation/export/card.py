"""Write the model card ``README.md``: Markdown with the front matter of model hubs."""

import re
from dataclasses import asdict
from typing import Any

import yaml

from rlher.config.key import experiment_keys
from rlher.core.errors import DamagedFile, first_line
from rlher.core.nested import flatten
from rlher.core.safe_read import read_json, read_text
from rlher.evaluation.export.sb3_model import PlainModel
from rlher.evaluation.metrics import format_cells
from rlher.runs.metadata import repeat_command, resume_note
from rlher.runs.run_folder import Run

MAX_TEXT_LENGTH = 500
"""Characters of text from the run folder within a sentence."""

CARD = """{front}
# {algo} on {env}

An agent for the goal environment `{env}`, trained for {steps:,} environment steps with {algo} and {her}.
{replay}
## Results

{table}

{episodes} episodes from seed {seed} on, none of which was used to choose a model. The interval (95 %, Wilson) is over \
these episodes of one training run (seed {run_seed}), not over several runs.

## Usage

```sh
pip install -r requirements.txt
python play.py
```

`play.py` builds the model by its constructor, loads the weights from `{file}` and plays an episode{scaled}. The zip \
is a plain {library} model: `{algo}.load("{file}")` reads it too, but that unpickles the file.
{onnx}{notes}
## Training

{command}Trained with {versions}. The settings, defaults written out:

{settings}
"""

ONNX = """
`{file}` is the policy for [ONNX Runtime](https://onnxruntime.ai), normalisation included. Its inputs are the arrays \
of a batch of observations as the environment of `play.py` returns them, its output is `action`:

```python
import onnxruntime

session = onnxruntime.InferenceSession("{file}")
action = session.run(["action"], {{key: value[None] for key, value in observation.items()}})[0][0]
```
"""


def model_card(
    run: Run,
    plain: PlainModel,
    measured: dict[str, Any],
    file: str,
    notes: list[str],
    replay: bool,
    onnx: str | None = None,
) -> str:
    """Return the model card.

    :param measured: summary of an evaluation, with ``timesteps`` of training and the ``seed`` of its first episode.
    :param file: name of the model's zip.
    :param notes: notes on the files, one sentence each.
    :param replay: whether there is a ``replay.mp4``.
    :param onnx: name of the ONNX file.
    """
    config = run.config
    her = config.her
    strategy = f"hindsight experience replay ({her.goal_selection_strategy}, {her.n_sampled_goal} goals per transition)"
    return CARD.format(
        front=_front_matter(run, plain, measured),
        algo=_algo(plain),
        env=_env(run),
        steps=measured["timesteps"],
        her=_without_markup(strategy) if her.n_sampled_goal else "plain replay, without hindsight",
        replay='\n<video src="replay.mp4" controls autoplay loop muted></video>\n' if replay else "",
        table=_table(measured),
        episodes=measured["episodes"],
        seed=measured["seed"],
        run_seed=config.seed,
        file=file,
        scaled=", its observations scaled with `normalizer.npz`" if config.normalize.enabled else "",
        library=_library(plain),
        onnx=ONNX.format(file=onnx) if onnx else "",
        notes="".join(f"\n* {note}" for note in notes) + "\n" if notes else "",
        command=_command(run),
        versions=_without_markup(_versions(run)),
        settings=_fenced("yaml", yaml.safe_dump(experiment_keys(config), sort_keys=False)),
    )


def _command(run: Run) -> str:
    """Return the paragraphs on the command that repeats the run; empty text for an unknown command."""
    text, config = read_text(run.folder / "command.txt"), dict(flatten(asdict(run.config)))
    command = repeat_command(text, config)
    paragraphs = [_fenced("sh", command) if command else "", resume_note(text, config)]
    return "".join(f"{paragraph}\n\n" for paragraph in paragraphs if paragraph)


def _versions(run: Run) -> str:
    """Return the versions from ``meta.json``."""
    meta = read_json(run.folder / "meta.json")
    try:
        commit = f" (commit {meta['git']['commit'][:10]})" if meta["git"] else ""
        ours, *others = [f"{name} {version}" for name, version in dict(meta["packages"]).items() if version]
        return f"Python {meta['python']}, {ours}{commit}, {', '.join(others)}"
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedFile(run.folder / "meta.json", first_line(error)) from error


def _fenced(language: str, text: str) -> str:
    """Return a code block whose fence is longer than any in the text."""
    fence = "`" * max([3, *(len(ticks) + 1 for ticks in re.findall("`+", text))])
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def _without_markup(text: str) -> str:
    """Return a text without characters that have a meaning in Markdown or HTML."""
    return re.sub(r"[^\w .,:()/+-]+", "-", text)[:MAX_TEXT_LENGTH]


def _front_matter(run: Run, plain: PlainModel, measured: dict[str, Any]) -> str:
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


def _algo(plain: PlainModel) -> str:
    return type(plain.model).__name__


def _library(plain: PlainModel) -> str:
    return {"stable_baselines3": "Stable-Baselines3", "sb3_contrib": "sb3-contrib"}[
        type(plain.model).__module__.partition(".")[0]
    ]


def _env(run: Run) -> str:
    return _without_markup(run.config.env.name or run.config.env.id)
