"""Wall-clock of whole commands: this checkout, its old way, the same training in plain SB3, and another checkout.

    python scripts/bench_run.py [--only reach optimize] [--rounds 3] [--scale 0.1] [--other ../checkout] [--json]

The contenders of a row take turns, and medians over the rounds are compared. The *old way* is the same commit with
evaluations, environment and update one after the other, and torch's matrix product. *Plain SB3* is the same network,
batch, number of updates, relabelling, normalisation and evaluation episodes, written with SB3's classes,
HerReplayBuffer, VecNormalize and EvalCallback, with one thread; it writes no checkpoints and bounds no targets.
*float32* is this checkout with `engine.precision=float32`. The *floor* is the larger of two sums: the environment's
steps, at the speed of one core, and the updates' arithmetic, at the rate of its fastest matrix product.

`--other` is a checkout with its own `.venv`, for example of an earlier commit. `--scale 0.1` trains and evaluates a
tenth. The machine must be idle.
"""

import argparse
import functools
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from rlher.config.training import all_run_keys

OLD_WAY = ("eval.workers=0", "engine.overlap=false", "engine.precision=float32")
"""Overrides of the old way; keys that this checkout does not have are left out."""
SCRIPT = str(Path(__file__).resolve())


@dataclass(frozen=True)
class Row:
    """A command and its bars.

    :param words: the command line of `rlher`.
    :param bars: largest share of a contender's time.
    :param seconds: largest time.
    :param is_whole: every episode has the length of the time limit.
    """

    words: str
    bars: dict[str, float] = field(default_factory=dict)
    seconds: float | None = None
    is_whole: bool = True


ROWS = {
    "reach": Row("train algo=ddpg env=FetchReach-v4", {"old way": 0.55, "other": 0.55, "plain SB3": 0.5}),
    "parking": Row("train algo=tqc env=parking-v0", {"old way": 0.7, "other": 0.7}, is_whole=False),
    "push": Row("train algo=sac env=FetchPush-v4 total_timesteps=20000 eval.freq=2000", {"plain SB3": 1 / 2.6}),
    "first_step": Row("train algo=sac env=FetchReach-v4 env.id=first_step:FirstStep-v0", seconds=2.5),
    "optimize": Row(
        "optimize algo=dqn env=BitFlipping-v0 total_timesteps=300 eval.freq=100 n_seeds=1 sampler=random "
        "pruner=none n_trials=40 workers=2 rerun_best=1 rerun_seeds=2",
        {"other": 1.2},
    ),
    "same": Row("train algo=ddpg env=FetchReach-v4"),
}
TRAINING = ("reach", "parking", "push")

# ------------------------------------------------------------------------------------------------ contenders


def measure(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Let the contenders of a row take turns and return their seconds."""
    words = ROWS[name].words.split()
    if name in TRAINING:
        words += scaled(words, arguments.scale)
    commands = contenders(name, words, arguments.other)
    if arguments.contenders:
        commands = {each: commands[each] for each in ["this checkout", *arguments.contenders] if each in commands}
    times: dict[str, list[float]] = {contender: [] for contender in commands}
    for _ in range(arguments.rounds):
        for contender, command in commands.items():
            times[contender].append(seconds_of(command, one_thread=contender == "plain SB3"))
    found: dict[str, Any] = {"row": name, "command": " ".join(words), "seconds": times}
    return found | {"floor": floor(composed(*words), ROWS[name].is_whole)} if name in TRAINING else found


def contenders(name: str, words: list[str], other: Path | None) -> dict[str, list[str]]:
    """Return the command of each contender."""
    rlher = [sys.executable, "-m", "rlher.cli.main"]
    found = {"this checkout": [*rlher, *words]}
    if name in TRAINING:
        old = [word for word in OLD_WAY if word.partition("=")[0] in all_run_keys()]
        found["float32"] = [*rlher, *words, "engine.precision=float32"]
        found["old way"] = [*rlher, *words, *old]
        found["plain SB3"] = [sys.executable, SCRIPT, "--plain-sb3", json.dumps(composed(*words))]
    if other is not None:
        found["other"] = [str(other.resolve() / ".venv/bin/rlher"), *words]  # its modules may have other names
    return found


def seconds_of(command: list[str], one_thread: bool = False) -> float:
    """Return how long a command takes in an empty folder, for `first_step` until the environment's first step."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "first_step.py").write_text(FIRST_STEP)
        environment = {**os.environ, "PYTHONPATH": folder} | ({"OMP_NUM_THREADS": "1"} if one_thread else {})
        with tempfile.TemporaryFile("w+") as output:  # with a pipe, its worker processes would be waited for as well
            started = time.perf_counter()
            done = subprocess.run(command, cwd=folder, env=environment, stdout=output, stderr=subprocess.STDOUT)
            took = time.perf_counter() - started
            output.seek(0)
            if done.returncode not in (0, -signal.SIGKILL):  # the latter with FIRST_STEP
                raise SystemExit(f"{' '.join(command)} failed:\n{output.read()[-2000:]}")
    return took


FIRST_STEP = """# FetchReach whose first step in training kills the main process.
import multiprocessing, os, pathlib, signal
import gymnasium, gymnasium_robotics

class FirstStep(gymnasium.Wrapper):
    def step(self, action):
        if any(pathlib.Path("logs").glob("*/*/meta.json")):  # the environment check is before the run folder
            main = multiprocessing.parent_process() or multiprocessing.current_process()
            os.kill(main.pid, signal.SIGKILL)
        return self.env.step(action)

gymnasium.register("FirstStep-v0", lambda **kwargs: FirstStep(gymnasium.make("FetchReach-v4", **kwargs).unwrapped))
gymnasium.register_envs(gymnasium_robotics)
"""


def scaled(words: list[str], scale: float) -> list[str]:
    """Return overrides that train and evaluate a share of a command."""
    if scale == 1:
        return []
    config = composed(*words)
    steps, eval_config = config["total_timesteps"], config["eval"]
    return [
        f"total_timesteps={round(steps * scale)}",
        f"eval.freq={max(round((eval_config['freq'] or steps // 20) * scale), 1)}",
        *(f"eval.{key}={max(round(eval_config[key] * scale), 1)}" for key in ("episodes", "final_episodes")),
    ]


@functools.cache
def composed(*words: str) -> dict[str, Any]:
    """Return the config of a command."""
    command = [sys.executable, "-m", "rlher.cli.main", *words, "--cfg", "job"]
    config: dict[str, Any] = yaml.safe_load(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return config


# ------------------------------------------------------------------------------------------------- plain SB3


def train_plain_sb3(config: dict[str, Any]) -> None:
    """Do the work of a training run with the classes of Stable-Baselines3 and sb3-contrib."""
    import gymnasium
    import numpy as np
    import sb3_contrib
    import stable_baselines3 as sb3
    import torch as th
    from stable_baselines3.common.callbacks import EvalCallback
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.noise import NormalActionNoise
    from stable_baselines3.common.vec_env import VecNormalize

    th.set_num_threads(1)
    algo, evaluation, env = config["algo"], config["eval"], config["env"]
    package = "gymnasium_robotics" if env["id"].startswith("Fetch") else "highway_env"
    gymnasium.register_envs(__import__(package))

    def make(seed: int, training: bool) -> Any:
        made = make_vec_env(env["id"], seed=seed, env_kwargs=env["kwargs"])
        clip = config["normalize"]["clip"]
        return VecNormalize(made, training=training, norm_reward=False, clip_obs=clip, epsilon=1e-4)

    names = ("learning_rate", "buffer_size", "batch_size", "gamma", "train_freq", "tau", "ent_coef")
    names += ("top_quantiles_to_drop_per_net",)
    settings = {name: algo[name] for name in names if name in algo}
    if algo["action_noise"]:
        shape = make(0, False).action_space.shape
        settings["action_noise"] = NormalActionNoise(np.zeros(shape), np.full(shape, algo["action_noise"]))
    policy = {name: algo[name] for name in ("net_arch", "n_critics", "n_quantiles") if name in algo}
    kind = getattr(sb3, algo["name"].upper(), None) or getattr(sb3_contrib, algo["name"].upper())
    venv, eval_venv = make(config["seed"], True), make(evaluation["seed"], False)
    her = {"n_sampled_goal": config["her"]["n_sampled_goal"], "goal_selection_strategy": "future"}
    model = kind(
        "MultiInputPolicy",
        venv,
        replay_buffer_class=sb3.HerReplayBuffer,
        replay_buffer_kwargs=her,
        learning_starts=learning_starts(config),
        policy_kwargs=policy,
        seed=config["seed"],
        device="cpu",
        **settings,
    )
    steps = config["total_timesteps"]
    freq = evaluation["freq"] or steps // 20
    callback = EvalCallback(
        eval_venv,
        n_eval_episodes=evaluation["episodes"],
        eval_freq=freq,
        best_model_save_path=".",
        log_path=".",
        verbose=0,
    )
    model.learn(steps, callback=callback)
    model.save("last_model")
    print(evaluate_policy(model, eval_venv, evaluation["final_episodes"]))
    if callback.last_mean_reward != callback.best_mean_reward:
        print(evaluate_policy(kind.load("best_model", eval_venv), eval_venv, evaluation["final_episodes"]))


def learning_starts(config: dict[str, Any]) -> int:
    """Return the random steps before the first update: at least an episode."""
    return max(config["algo"]["learning_starts"] or 0, config["env"]["max_episode_steps"] or 0)


def floor(config: dict[str, Any], is_whole: bool) -> dict[str, float]:
    """Return the seconds of all environment steps and of all updates' arithmetic, on one core.

    :param is_whole: count the steps of evaluations, too; the length of episodes that end early is not known.
    """
    import bench_train
    import torch as th

    from rlher.algos.precision import is_bf16_faster

    algo, evaluation = config["algo"], config["eval"]
    policy = {"n_critics": algo["n_critics"]} if "n_critics" in algo else {}
    work = bench_train.Work(algo["name"], config["env"]["id"], algo["net_arch"], algo["batch_size"], 0, {}, policy)
    bf16 = is_bf16_faster(th.device("cpu"), work.batch, work.nets)
    found = bench_train.floor(work, 1, time.perf_counter, bf16)
    steps = config["total_timesteps"]
    evaluations = steps // (evaluation["freq"] or steps // 20)
    episodes = evaluations * evaluation["episodes"] + evaluation["final_episodes"]
    played = steps + (episodes * (config["env"]["max_episode_steps"] or 0) if is_whole else 0)
    updates = steps - learning_starts(config)
    return {"environment": played * found["env_ms"] / 1e3, "arithmetic": updates * found["arithmetic_ms"] / 1e3}


# ---------------------------------------------------------------------------------------------------- output


def same(arguments: argparse.Namespace) -> dict[str, Any]:
    """Train with 0, 1 and 2 evaluation workers and return what differs."""
    from same_run import differences  # a process of plain SB3 has a safe path, in which this folder is not

    words = ROWS["same"].words.split()
    words += [*scaled(words, arguments.scale), "seed=3", "threads=1"]
    with tempfile.TemporaryDirectory() as folder:
        for workers in range(3):
            command = [sys.executable, "-m", "rlher.cli.main", *words, f"eval.workers={workers}"]
            subprocess.run(command, cwd=folder, check=True, capture_output=True)
        runs = [Path(folder) / f"logs/ddpg/FetchReach-v4_{number}" for number in (1, 2, 3)]
        found = [differences(runs[0], run) for run in runs[1:]]
    return {"row": "same", "command": " ".join(words), "differences": found}


def show(found: dict[str, Any]) -> None:
    """Print the results of a row."""
    print(f"\n{found['row']}: {found['command']}")
    if "differences" in found:
        print(f"  eval.workers=0 against 1 and 2: {found['differences']}, {met(not any(found['differences']))}")
        return
    row, medians = ROWS[found["row"]], {name: statistics.median(each) for name, each in found["seconds"].items()}
    ours = medians["this checkout"]
    for name, seconds in medians.items():
        share = "" if name == "this checkout" else f"   this checkout takes {ours / seconds:.2f} of it"
        bar = row.bars.get(name)
        verdict = "" if bar is None else f", bar {bar:.2f}: {met(ours / seconds <= bar)}"
        each = " ".join(f"{value:.1f}" for value in found["seconds"][name])
        print(f"  {name:<14} {seconds:8.1f} s ({each}){share}{verdict}")
    if row.seconds is not None:
        print(f"  bar {row.seconds} s: {met(ours <= row.seconds)}")
    if "floor" in found:
        parts = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in found["floor"].items())
        print(f"  {'floor':<14} {max(found['floor'].values()):8.1f} s ({parts})")


def met(value: bool) -> str:
    """Return the word for a bar that is met or not."""
    return "met" if value else "NOT met"


def main() -> None:
    """Run the selected rows and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(ROWS), default=list(ROWS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the steps and episodes of a training")
    parser.add_argument("--other", type=Path, help="another checkout, with a .venv")
    parser.add_argument("--contenders", nargs="+", metavar="NAME", help='such as "old way" other; default: all')
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--plain-sb3", metavar="CONFIG", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.plain_sb3:
        train_plain_sb3(json.loads(arguments.plain_sb3))
        return
    for name in arguments.only:
        found = same(arguments) if name == "same" else measure(name, arguments)
        print(json.dumps(found)) if arguments.json else show(found)
        sys.stdout.flush()
    print(f"load {os.getloadavg()}", file=sys.stderr)


if __name__ == "__main__":
    main()
