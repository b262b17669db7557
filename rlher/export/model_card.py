"""Write the model card ``README.md``: Markdown with the front matter of model hubs."""

import re
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from stable_baselines3.common.base_class import BaseAlgorithm

from rlher.config.key import param_values
from rlher.core.errors import as_read_error
from rlher.core.nested import from_dotted_keys
from rlher.core.reading import dump_yaml
from rlher.evaluation.metrics import format_cells
from rlher.run.run_folder import METADATA_FILE, RunFolder, read_commands, read_metadata

MAX_TEXT_LENGTH = 500
"""Characters of text from the run folder within a sentence."""

LIBRARIES = {"stable_baselines3": "Stable-Baselines3", "sb3_contrib": "sb3-contrib"}


def model_card(
    run: RunFolder,
    model: BaseAlgorithm,
    files: dict[str, str | None],
    measured: dict[str, Any],
    notes: list[str],
) -> str:
    """Return the model card: ``card.md.jinja`` filled in.

    :param files: names of the ``model``'s zip, of the ``onnx`` file and of the ``video``; None for a missing file.
    :param measured: summary of an evaluation, and the ``seed`` of its first episode.
    :param notes: notes on the files, one sentence each.
    """
    config = run.config
    her = config.her
    package = type(model).__module__.partition(".")[0]
    strategy = f"hindsight experience replay ({her.goal_selection_strategy}, {her.n_sampled_goal} goals per transition)"
    files_here = PackageLoader("rlher.export", "")
    templates = Environment(loader=files_here, trim_blocks=True, keep_trailing_newline=True, undefined=StrictUndefined)
    templates.filters |= {"plain": without_markup, "fenced": fenced}
    return templates.get_template("card.md.jinja").render(
        algorithm=type(model).__name__,
        library=LIBRARIES.get(package, package),
        env=config.env.label,
        timesteps=model.num_timesteps,
        her=strategy if her.n_sampled_goal else "plain replay, without hindsight",
        table={**format_cells(measured), "episodes": measured["episodes"], "training runs": 1},
        measured=measured,
        run_seed=config.seed,
        normalized=config.normalize.enabled,
        notes=notes,
        **files,
        command=read_commands(run.folder),
        versions=_versions(run),
        settings=dump_yaml(from_dotted_keys(param_values(config))),
    )


def without_markup(text: str) -> str:
    """Return a text of the run folder without characters that have a meaning in Markdown or HTML."""
    return re.sub(r"[^\w .,:()/+-]+", "-", text)[:MAX_TEXT_LENGTH]


def fenced(text: str, language: str) -> str:
    """Return a code block whose fence is longer than any in the text."""
    fence = "`" * max([3, *(len(ticks) + 1 for ticks in re.findall("`+", text))])
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def _versions(run: RunFolder) -> str:
    """Return the versions from ``meta.json``."""
    meta = read_metadata(run.folder)
    with as_read_error(run.folder / METADATA_FILE):
        commit = f" (commit {meta['git']['commit'][:10]})" if meta["git"] else ""
        ours, *others = [f"{name} {version}" for name, version in dict(meta["packages"]).items() if version]
        return f"Python {meta['python']}, {ours}{commit}, {', '.join(others)}"
