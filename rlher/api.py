"""rlher from Python: the commands as functions, for scripts and notebooks.

A function with the name of a command does the same, with the same config keys, and raises
:class:`~rlher.core.errors.UserError` where the command would print its message.
"""

import contextlib
import functools
import os
from collections.abc import Iterable, Mapping, Sequence
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import gymnasium as gym
import numpy as np

from rlher.config import command_configs
from rlher.config.command_configs import CheckConfig, PlayConfig
from rlher.config.compose import compose
from rlher.config.environment import EnvConfig
from rlher.config.key import flatten_sections
from rlher.config.overrides import command_text, to_plain_value
from rlher.config.training import RunConfig, TrainConfig
from rlher.core.console import escape_control, print_note, warn
from rlher.core.errors import RunError, UserError, first_line
from rlher.core.reading import finite_float
from rlher.envs import make
from rlher.envs.contract import check_goal_env, check_or_raise
from rlher.envs.registration import registering_module
from rlher.envs.simulators import choose_mujoco_renderer
from rlher.jobs.sweep import train_sweep
from rlher.run import lookup, run_folder
from rlher.run.result import RunResult
from rlher.run.run_folder import read_result
from rlher.training.messages import final_lines
from rlher.training.resume import resume_config, resume_run
from rlher.training.train_run import train_run

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from rlher.algos.off_policy_algorithm import OffPolicyAlgorithm
    from rlher.analysis.plotting import CurvesFigure


class Run:
    """A training run in its folder, or a pretrained agent; see :func:`train`, :func:`load`, :func:`runs`.

    :param run: its folder and config.
    :param choice: keys that choose its agent and the model.
    """

    def __init__(self, run: run_folder.RunFolder, choice: PlayConfig) -> None:
        self._run = run
        self._choice = choice

    @property
    def folder(self) -> Path:
        """The run folder, absolute."""
        return self._run.folder

    @property
    def config(self) -> RunConfig:
        """All config keys with their values: ``run.config.algo.gamma``."""
        return self._run.config

    @property
    def result(self) -> dict[str, Any]:
        """The content of ``result.json``, such as ``status`` and ``success_rate``; empty while the run is trained."""
        return read_result(self.folder)

    @functools.cached_property
    def model(self) -> "OffPolicyAlgorithm":
        """The Stable-Baselines3 model, with an empty replay buffer."""
        from rlher.evaluation.models import choose_model

        with contextlib.closing(self.env()) as env:
            return choose_model(self._choice).load(env)

    def predict(self, observation: "dict[str, np.ndarray]", deterministic: bool = True) -> "np.ndarray":
        """Return the action for an observation of :meth:`env`, or actions for a batch of them; no state, unlike SB3.

        :param observation: as ``reset`` and ``step`` return it; in a batch each array has one more axis, the first.
        :raises UserError: it is not an observation of the environment.
        """
        parts: Any = observation if isinstance(observation, Mapping) else {}
        for key, space in self.model.observation_space.spaces.items():  # type: ignore[attr-defined]
            shape = np.shape(parts.get(key))
            if space.shape not in (shape, shape[1:]):  # of one observation, of a batch
                raise UserError(f"predict needs observations of {self.config.env.label} as reset and step return them.")
        return self.model.predict(observation, deterministic=deterministic)[0]

    def evaluate(
        self, episodes: int = 100, seed: int = PlayConfig.seed, deterministic: bool = True, model: str | None = None
    ) -> dict[str, Any]:
        """Play episodes, and return what ``rlher evaluate --json`` prints: success rate with its interval, return, ….

        :param seed: seed of the first episode; the next ones count up.
        :param model: as in :func:`load`; None for the model that was loaded.
        """
        from rlher.evaluation.models import choose_model

        model = model or self._choice.model
        keys = {"episodes": episodes, "seed": seed, "deterministic": deterministic, "model": model}
        config = compose(command_configs.EvaluateConfig, _overrides(vars(self._choice) | keys))
        return choose_model(config).evaluate(episodes, seed)

    def enjoy(self, video: str | Path | None = None, **keys: Any) -> Path | None:
        """Watch the agent in a window, or film it, and print the outcome of each episode, as ``rlher enjoy`` does.

        Return the path of the video, None if there was a window. In a notebook, ``IPython.display.Image`` shows a GIF.

        :param video: file to write, .mp4 or .gif; None: a window, or ``<run>/enjoy.mp4`` without a display.
        :param keys: the command's: ``episodes=2``, ``grid="2x1"``, ``width=480``, ``seed=0``, ….
        :raises UserError: there is no model, or a key is invalid.
        """
        from rlher.playing.enjoy import watch

        overrides = _overrides(vars(self._choice) | {"video": video} | keys)
        _, recorded = watch(compose(command_configs.EnjoyConfig, overrides))
        return recorded

    def curves(self) -> "pd.DataFrame":
        """Return the evaluations during training, a row each, with ``run``, ``algo``, ``env``, ``her`` and ``seed``.

        :raises UserError: there is no evaluation yet, or ``evaluations.csv`` is damaged.
        """
        from rlher.analysis.loading import read_run

        try:
            run = read_run(self.folder)
        except (OSError, ValueError) as error:
            raise UserError(f"{self._run} has no curves: {first_line(error)}.") from error
        keys = {"run": str(self._run), **{key: run.values[key] for key in ("algo", "env", "her", "seed")}}
        columns = [*keys, *run.evaluations]
        return run.evaluations.assign(**keys)[columns].rename(columns=escape_control)

    def export(self, folder: str | Path | None = None, *, format: str = "sb3") -> Path:
        """Write the agent for Stable-Baselines3 alone, with a script and a model card, and return the folder.

        :param folder: folder to write; None for ``<run>/export``, which is replaced.
        :param format: ``"sb3"``, or ``"onnx"``: the policy as an ONNX file as well.
        :raises UserError: there is no model, the folder cannot be written, or it is a pretrained agent.
        """
        from rlher.export.exporter import export

        if self._choice.agent:
            raise UserError(f"the agent {self._choice.agent} holds the weights of its policy alone; export a run.")
        keys = {"run": self._choice.run, "model": self._choice.model, "trust_code": self._choice.trust_code}
        config = compose(command_configs.ExportConfig, _overrides({**keys, "output": folder, "format": format}))
        return Path(export(config)["folder"]).absolute()

    def env(self, render_mode: str | None = None) -> gym.Env:
        """Return a new environment of the run; ``info["is_success"]`` is always there."""
        return _make_env(self.config.env, render_mode)

    def resume(self, **keys: Any) -> "Run":
        """Continue an interrupted run, or a finished one with ``more_timesteps=5000``, in its folder; return it.

        :param keys: config keys that may change, and ``more_timesteps``.
        :raises UserError: it is finished, is being trained, a key may not change, or it is a pretrained agent.
        :raises RunError: the run failed.
        """
        if self._choice.agent:
            raise UserError(f"the agent {self._choice.agent} holds the weights of its policy alone; train a run.")
        try:
            overrides = _overrides(keys)
            command_line = command_text("resume", overrides, str(self._run))
            trusted = {"trust_code": True} if self._choice.trust_code else {}
            config = resume_config({**trusted, **overrides, "run": str(self.folder)})
            _print_result(*resume_run(config, command_line))
        finally:
            self.__dict__.pop("model", None)
            with contextlib.suppress(UserError):  # a folder that was moved must not hide why the run failed
                self._run = lookup.open_run(str(self.folder), "", self._choice.trust_code)
        return self

    def __fspath__(self) -> str:
        return str(self.folder)

    def __repr__(self) -> str:
        result = self.result
        rate = finite_float(result.get("success_rate"))
        success = "" if rate is None else f", success {rate:.1%}"
        title = f"{self.config.title}, {result.get('status', 'no result')}"
        return escape_control(f"<rlher.Run {self._choice.agent or self._run}: {title}{success}>")


Folders = str | os.PathLike | Sequence[str | os.PathLike]
"""One run or folder of runs, or several of them; ``*`` stands for any part of a name."""

Runs = Folders | Mapping[str, Folders]
"""Runs, or runs by the name of their group."""


@overload
def train(algo: str | type | None = ..., env: str | None = ..., /, *, seed: int | None = ..., **keys: Any) -> Run: ...


@overload
def train(
    algo: str | type | None = ..., env: str | None = ..., /, *, seed: Iterable[int], **keys: Any
) -> list[Run]: ...


def train(
    algo: str | type | None = None,
    env: str | None = None,
    /,
    *,
    her: Any = None,
    total_timesteps: int | None = None,
    seed: int | Iterable[int] | None = None,
    logs: str | Path | None = None,
    progress: bool = True,
    **keys: Any,
) -> Run | list[Run]:
    """Train an agent into a new run folder, as ``rlher train`` does, or one per seed side by side.

    After Ctrl-C, or "interrupt" in a notebook, models and a checkpoint are written first, so that
    ``rlher.load(folder).resume()`` continues the run.

    :param algo: algorithm, such as ``"sac"``, or a subclass of an algorithm's class.
    :param env: environment, such as ``"FetchReach-v4"`` or ``"my_env.yaml"``.
    :param her: strategy, or a mapping of its keys. None: of the recipe. ``"off"`` or False: no hindsight.
    :param total_timesteps: environment steps to train; None for the recipe's value.
    :param seed: several, such as ``range(3)``, are trained ``workers=`` at a time as a sweep: a run of the same config
        that is finished is not trained again, and one that was interrupted is continued.
    :param logs: folder of all runs; ``logs`` if None.
    :param progress: print progress on stderr; False: only warnings.
    :param keys: any other config key: ``n_envs=2``, ``algo={"gamma": 0.95}``, ``**{"algo.gamma": 0.95}``. Where a key
        takes ``"module:name"``, the function or class may be given.
    :raises UserError: the config cannot be trained; nothing was written.
    :raises RunError: the run failed; the message names the run folder.
    :raises KeyboardInterrupt: it was interrupted; the message names the run folder.
    """
    arguments = {"algo": algo, "env": env, "her": her, "total_timesteps": total_timesteps, "logs": logs}
    if not progress:
        arguments["progress"] = False
    overrides = _overrides({name: value for name, value in arguments.items() if value is not None})
    overrides |= _overrides(keys)
    if not {"algo", "env"} <= overrides.keys():
        raise UserError('name algorithm and environment, as in rlher.train("sac", "FetchReach-v4").')
    module = registering_module(overrides["env"])
    if module and "env.modules" not in overrides:
        overrides["env.modules"] = [module]  # for worker processes, and when the run is loaded
    if isinstance(seed, Iterable) and not isinstance(seed, str):
        return _train_seeds(overrides, list(seed))
    if seed is not None:
        overrides |= _overrides({"seed": seed})
    config = compose(TrainConfig, overrides).for_single_run()
    command_line = command_text("train", overrides)
    run, result = train_run(config, command_line)
    _print_result(run, result)
    return Run(run, PlayConfig(run=str(run.folder), trust_code=True))


def load(name: "str | Path | Run", *, model: str = "auto", device: str = "cpu", trust_code: bool = False) -> Run:
    """Return a run by its folder, or a pretrained agent by its name.

    :param model: model of the run: best, last, or steps of ``eval.keep_models``; auto: best or last.
    :param trust_code: run the code that the ``config.yaml`` of somebody else's run names.
    :raises UserError: there is no such run or agent, or its code is not trusted.
    """
    if isinstance(name, Run):
        name = name._choice.agent or name.folder
    name = str(name)
    choice = PlayConfig(model=model, device=device, trust_code=trust_code)
    if name not in agents() and (os.sep in name or os.path.exists(name)):
        choice.run = os.path.abspath(name)
    else:
        choice.agent = name
    run, _ = lookup.find_run_and_model(choice, choice.agent)
    return Run(run, choice)


def agents() -> list[str]:
    """Return the names of the pretrained agents, for :func:`load`."""
    return lookup.pretrained_agent_names()


def runs(folder: Folders = "logs") -> list[Run]:
    """Return all runs in and below folders; warn about runs that cannot be read or whose code is not trusted.

    :raises UserError: there is no such folder.
    """
    from rlher.analysis.loading import run_folders

    readable = []
    for path in (run for parent in _run_paths(folder) for run in run_folders(Path(parent))):
        try:
            readable.append(load(path.absolute()))
        except UserError as error:
            warn(f"skipped {path}: {error}")
    return readable


@overload
def compare(runs: Runs = ..., by: str | Sequence[str] = ..., table: str = ...) -> "pd.DataFrame": ...


@overload
def compare(runs: Runs = ..., by: str | Sequence[str] = ..., table: str = ..., *, format: str) -> str: ...


def compare(
    runs: Runs = "logs", by: str | Sequence[str] = (), table: str = "summary", *, format: str | None = None
) -> "pd.DataFrame | str":
    """Return a table of ``rlher compare``: its numbers as a DataFrame, or its text.

    Runs that differ only in their seed are one group. ``rlher compare --format csv`` has the same columns.

    :param runs: a mapping of names to runs names the groups: ``{"HER": runs[:3], "no HER": runs[3:]}``.
    :param by: config keys to group by, such as ``"her"`` or ``["algo", "her.n_sampled_goal"]``; all other differences
        are pooled.
    :param table: ``"summary"``, a row per group: ``success_rate``, the interquartile mean of its runs, the ``low`` and
        ``high`` end of its interval, the rate of each run (``per_seed``), median ``steps_to_50`` % success, and the
        number of runs that ``never_50`` reached. ``"improvement"``, probabilities that one group's run beats another's
        (two groups on one environment, three seeds each); ``"profiles"``, fractions of runs above success rates;
        ``"environments"``, groups over several environments, with the optimality ``gap``.
    :param format: None for numbers, or ``"text"``, ``"markdown"``, ``"latex"`` or ``"csv"``.
    :raises UserError: there is no run with an evaluation, no run has a key of ``by``, or there is no such table.
    """
    from rlher.analysis import comparison

    if table not in comparison.TABLES:
        raise UserError(f"there is no table {table!r}; the tables are {', '.join(comparison.TABLES)}.")
    config = compose(command_configs.CompareConfig, _overrides({"runs": _run_paths(runs), "by": by, "format": format}))
    compared = comparison.TABLES[table](comparison.load_compared(config))
    if compared.numbers.empty:
        warn(f"the table {table!r} is empty; see rlher.compare for what it needs.")
    return compared.format(format) if format else compared.numbers


@overload
def plot(runs: Runs = ..., by: str | Sequence[str] = ..., *, ax: "Axes", **keys: Any) -> "Axes": ...


@overload
def plot(runs: Runs = ..., by: str | Sequence[str] = ..., *, ax: None = ..., **keys: Any) -> "CurvesFigure": ...


def plot(
    runs: Runs = "logs", by: str | Sequence[str] = (), *, ax: "Axes | None" = None, **keys: Any
) -> "CurvesFigure | Axes":
    """Return a matplotlib figure of the learning curves, as ``rlher plot`` draws them. It is pyplot's current figure.

    :param runs, by: as in :func:`compare`.
    :param ax: axes of a figure of your own, which are returned, for runs of one environment; ``ax.legend()`` names the
        curves. You choose their style; ``plt.style.use(["default", "rlher.analysis.paper"])`` sets a paper's style.
    :param keys: the command's: ``x="wall"``, ``y="mean_reward"``, ``title``, ``smooth=5``, ``figsize=[3.4, 2.6]``,
        ``style="paper"``.
    :return: the figure, whose ``numbers`` is a DataFrame of the drawn points, or ``ax``.
    :raises UserError: there is no run with an evaluation, no such column, or no such key.
    """
    if ignored := {"output", "csv"} & keys.keys():
        raise UserError(f"{min(ignored)} is for the command; the figure has savefig, and numbers is a DataFrame.")
    from rlher.analysis.plotting import draw_on, draw_runs

    config = compose(command_configs.PlotConfig, _overrides({"runs": _run_paths(runs), "by": by, **keys}))
    if ax is not None:
        if not hasattr(ax, "plot"):
            raise UserError(f"ax is {type(ax).__name__}, not one Axes; give one of them, such as axes[0].")
        draw_on(ax, config)
        return ax
    return draw_runs(config, for_pyplot=True)


def report(runs: Runs = "logs", by: str | Sequence[str] = (), output: str | Path | None = None, **keys: Any) -> Path:
    """Write one HTML page with curves, tables and clips of runs, as ``rlher report`` does, and return its path.

    :param runs, by: as in :func:`compare`; a study of ``rlher optimize`` is given as its folder.
    :param output: file of the page; ``report.html`` beside the runs if None.
    :param keys: the command's, such as ``title``.
    :raises UserError: there is no run with an evaluation, or the page cannot be written.
    """
    from rlher.analysis.report import write_report

    overrides = _overrides({"runs": _run_paths(runs), "by": by, "output": output, **keys})
    command_line = command_text("report", overrides)
    return write_report(compose(command_configs.ReportConfig, overrides), command_line)


def check(env: str, seed: int = CheckConfig.seed, **keys: Any) -> dict[str, Any]:
    """Check an environment against the contract of a goal environment; return what ``rlher check --json`` prints.

    :param seed: seed of the episodes played.
    :param env, keys: as in :func:`make_env`.
    :return: ``ok``, ``findings``, ``properties`` and ``spaces``.
    :raises UserError: there is no such environment, or it cannot be made.
    """
    config = _compose_env(env, keys, seed)
    return check_goal_env(config.env, config.seed).to_dict()


def make_env(env: str, render_mode: str | None = None, **keys: Any) -> gym.Env:
    """Return a goal environment as runs are evaluated in it; ``info["is_success"]`` is always there.

    :param env: as in :func:`train`.
    :param keys: its config keys, such as ``kwargs={"n_bits": 8}`` for BitFlipping-v0; ``trust_code=True`` if ``env``
        is a file that names code.
    :raises UserError: there is no such environment, or it violates the contract of a goal environment.
    """
    return _make_env(check_or_raise(_compose_env(env, keys).env).config, render_mode)


# ------------------------------------------------------------------------------------------------ helpers


def _make_env(config: EnvConfig, render_mode: str | None) -> gym.Env:
    env = make.make_env(config, render_mode)
    if render_mode not in (None, "human"):
        choose_mujoco_renderer()  # otherwise MuJoCo may end the process
    return env


def _train_seeds(overrides: dict[str, Any], seeds: list[int]) -> list[Run]:
    """Train a run per seed as a sweep, and return the runs in the order of the seeds.

    :raises KeyboardInterrupt: they were interrupted.
    :raises UserError: one of them cannot be trained, or was finished before by somebody else whose code is not trusted.
    :raises RunError: one of them failed; the others are finished.
    """
    if not seeds:
        raise UserError("there are no seeds in a list of seeds; check how it was chosen.")
    trained, interrupted = train_sweep([overrides | _overrides({"seed": seed}) for seed in seeds])
    if interrupted:
        raise KeyboardInterrupt("the runs are saved; the same call continues them")
    for run in trained:
        if run.error:
            if isinstance(run.error, UserError):
                raise UserError(run.failure_message)
            raise RunError(run.failure_message, run.folder)
    return [load(run.folder.resolve(), trust_code=run.config.trust_code) for run in trained if run.folder]


def _compose_env(env: str, keys: Mapping[str, Any], seed: int = CheckConfig.seed) -> CheckConfig:
    env_keys = {name if name == "trust_code" else f"env.{name}": value for name, value in keys.items()}
    return compose(CheckConfig, _overrides({"env": env, "seed": seed, **env_keys}))


def _overrides(keys: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of nested keys, as a config holds them, by dotted key."""
    return dict(flatten_sections(RunConfig(), to_plain_value(keys)))


def _print_result(run: run_folder.RunFolder, result: RunResult) -> None:
    """Print the result of a finished run on stderr, unless ``progress=False``."""
    if run.config.progress:
        for line in final_lines(run, result):
            print_note(line)


def _run_paths(runs: Runs) -> list[str]:
    if isinstance(runs, Mapping) and runs:
        return [f"{name}={path}" for name, folders in runs.items() for path in _run_paths(folders)]
    is_one = isinstance(runs, str | os.PathLike) or not isinstance(runs, Iterable)
    is_table = hasattr(runs, "columns")  # of pandas, which yields its columns
    entries: list[Any] = [runs] if is_one or is_table else [*runs]  # type: ignore[misc]
    if not entries:  # to the command, no runs are all runs in logs
        raise UserError("there are no runs in a list of runs; check how it was chosen.")
    return [path for entry in entries for path in _matching_paths(entry)]


def _matching_paths(run: Any) -> list[str]:
    """Return the folder that is meant, or those that match a pattern.

    :raises UserError: it is not a path.
    """
    if not isinstance(run, str | os.PathLike):
        raise UserError(f"runs are folders or what rlher.load returns, not {type(run).__name__}; see rlher.runs.")
    path = os.fspath(run)
    return [path] if Path(path).exists() else sorted(glob(path)) or [path]
