"""RL Zoo's command line in rlher's words: the table of the command line and of docs/guide/coming_from.md.

The flags are those of rl_zoo3 2.9. A new one needs a row and nothing else.
"""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["value", "switch", "list", "pairs", "file", "run"]
"""What follows a flag: a word; nothing; words; ``key:value`` words; a YAML file of hyperparameters; a part of a run
folder's path (see ``RUN_PARTS``)."""


@dataclass(frozen=True)
class Row:
    """A flag of RL Zoo, with an example of its value, or a hyperparameter, and what rlher makes of it.

    :param names: the flag's names, joined by ", "; of a hyperparameter its name, or a pattern with ``*``.
    :param example: what follows the flag. Of a hyperparameter: what follows ``-params``.
    :param rlher: rlher's words, in which ``{}`` stands for the value and ``{key}`` for the last part of its name;
        ``""``: nothing is needed; None: refused with the note. Words that begin with ``--`` are a flag of rlher itself.
    :param note: what differs, why nothing is needed, or what to do instead.
    :param exact: the row holds only for the value of its example. Such rows come before the others.
    :param pattern: the row holds only for values that this regular expression matches; of a hyperparameter, ``{}`` is
        its group if it has one.
    :param command: the command that a switch selects.
    """

    names: str
    example: str = ""
    rlher: str | None = ""
    note: str = ""
    kind: Kind = "value"
    exact: bool = False
    pattern: str | None = None
    command: str | None = None


@dataclass(frozen=True)
class Script:
    """A script of RL Zoo, ``python -m rl_zoo3.<name>``.

    :param command: rlher's command; None: refused with the note.
    """

    name: str
    command: str | None
    note: str = ""


SCRIPTS = (
    Script("train", "train"),
    Script("enjoy", "enjoy"),
    Script("record_video", "enjoy", "writes a video where there is no display, or with `--video film.mp4`"),
    Script("plots.all_plots", "plot"),
    Script("plots.plot_train", "plot", "draws evaluations, not training episodes"),
    Script("push_to_hub", "export"),
    Script("plots.plot_from_file", None, "`rlher compare` and `rlher report` compute rliable's numbers of run folders"),
    Script("record_training", None, "train with record=true, which films each new best model"),
    Script("benchmark", None, "`rlher compare logs` prints the table of all runs"),
    Script("load_from_hub", None, "`rlher list agents` lists the agents that come with rlher"),
)

TRAIN = (
    Row("--algo", "her", None, "hindsight is on with every algorithm; name one, such as --algo sac", exact=True),
    *(
        Row("--algo", name, None, "hindsight needs a replay buffer, which on-policy algorithms lack", exact=True)
        for name in ("ppo", "a2c", "trpo", "ppo_lstm", "ars")
    ),
    Row("--algo", "sac", "--algo {}"),
    Row("--env", "FetchReach-v4", "--env {}"),
    Row("-n, --n-timesteps", "10000", "total_timesteps={}"),
    Row("--seed", "1", "--seed {}", "0 if left out; RL Zoo draws one"),
    Row("--eval-freq", "-1", "eval.freq=1000000000", "the final evaluation remains", exact=True),
    Row("--eval-freq", "5000", "eval.freq={}"),
    Row("--eval-episodes", "10", "eval.episodes={}"),
    Row("--n-eval-envs", "2", "eval.workers={}", "processes that evaluate while training continues"),
    Row("--save-freq", "-1", "checkpoint.every=null", "no checkpoints, so the run cannot be continued", exact=True),
    Row(
        "--save-freq",
        "50000",
        "checkpoint.every={} eval.keep_models=true",
        "the run can be resumed from its checkpoint; the model of every evaluation is kept",
    ),
    Row("--save-replay-buffer", "", "", "every checkpoint holds the replay buffer", "switch"),
    Row("-f, --log-folder", "logs", "logs={}"),
    Row(
        "-i, --trained-agent",
        "logs/sac/FetchReach-v4_1/best_model.zip",
        "init_from={}",
        "also a zip of RL Zoo with equal networks (not unpickled); `rlher train --resume` keeps the buffer",
    ),
    Row("--truncate-last-trajectory", "True", "", "`rlher train --resume` continues exactly"),
    Row("-tb, --tensorboard-log", "runs", "tensorboard=true", "the event files are in the run folder"),
    Row("--num-threads", "-1", "", "rlher measures the best number", exact=True),
    Row("--num-threads", "2", "threads={}"),
    Row("--log-interval", "4", "", "a row every 4 episodes, as in SB3"),
    Row("--vec-env", "subproc", "--vec-env {}"),
    Row("--device", "cpu", "--device {}"),
    Row("--verbose", "0", "progress=false", exact=True),
    Row("--verbose", "1", "", "each evaluation is printed"),
    Row("-P", "", "progress=true", "the default on a terminal", "switch"),
    Row("--gym-packages", "panda_gym", "env.modules=[{}]", kind="list"),
    Row("--env-kwargs", "reward_type:'dense'", "env.kwargs.{key}={}", kind="pairs"),
    Row("--eval-env-kwargs", "a:1", None, "evaluations play the environment of the training", "pairs"),
    Row("-params, --hyperparams", "learning_rate:0.01", "algo.{key}={}", "all names: next table", "pairs"),
    Row(
        "-conf, --conf-file",
        "her.yml",
        "recipe=null …",
        "each entry of the environment, as by `-params`; what it leaves out is as in SB3, without normalisation",
        "file",
    ),
    Row("-uuid, --uuid", "", "", "run folders are numbered, also where runs start at the same time", "switch"),
    Row("--track", "", "logger=wandb", kind="switch"),
    Row("--wandb-project-name", "reach", "WANDB_PROJECT={}", "an environment variable"),
    Row("--wandb-entity", "lab", "WANDB_ENTITY={}", "an environment variable"),
    Row("--wandb-group", "her", "WANDB_RUN_GROUP={}", "an environment variable"),
    Row("-tags, --wandb-tags", "first", "WANDB_TAGS={}", "an environment variable", "list"),
    Row("-optimize, --optimize, --optimize-hyperparameters", "", "", "`rlher optimize`", "switch", command="optimize"),
)
"""Flags of `train.py`."""

BEST_TRIAL = "to train the best trial of a study: `--recipe logs/optuna/<study>/best.yaml`"
TRIAL = tuple(
    Row(flag, example, None, BEST_TRIAL)
    for flag, example in {"--study-name": "reach", "--storage": "sqlite:///study.db", "--trial-id": "3"}.items()
)
"""Flags of `train.py` without `-optimize` that name a trial of a study."""

OPTIMIZE = (
    *TRAIN,
    Row("--n-trials", "20", "--n-trials {}", "of all workers together"),
    Row("--max-total-trials", "20", "n_trials={}"),
    Row("--n-jobs", "2", "workers={}", "processes, not threads"),
    Row("--sampler", "auto", "sampler=tpe", exact=True),
    Row("--sampler", "random", "--sampler {}"),
    Row("--pruner", "halving", "pruner=hyperband", exact=True),
    Row("--pruner", "median", "--pruner {}"),
    Row("--n-startup-trials", "10", "", "Optuna's default"),
    Row("--n-evaluations", "5", None, "set eval.freq to total_timesteps / evaluations"),
    Row("--storage", "logs/demo.log", "", "the journal file is in the folder of the study", pattern=r".+\.log"),
    Row("--storage", "sqlite:///study.db", "--storage {}"),
    Row("--study-name", "reach", "--study-name {}"),
    Row("--trial-id", "3", None, BEST_TRIAL),
    Row("--no-optim-plots", "", "", "the plots are small files in the folder of the study", "switch"),
    Row("--optimization-log-path", "trials", "", "the folder of the study holds every trial"),
)
"""Flags of `train.py -optimize`."""

RUN_PARTS = {
    "algo": "-a, --algo, --algos",
    "env": "-e, --env",
    "folder": "-f, --folder, --exp-folder, --exp-folders",
    "number": "--exp-id",
}
"""Flags that name a run folder ``<folder>/<algo>/<env>_<number>`` in parts."""

ENJOY = (
    Row(
        "--algo, --env, -f, --folder, --exp-id",
        "--algo dqn --env BitFlipping-v0 -f logs --exp-id 1",
        "logs/dqn/BitFlipping-v0_1",
        "without `--exp-id`: the newest; without such a run: the agent of this name that comes with rlher",
        "run",
    ),
    Row("--no-render", "", "", "`rlher evaluate`", "switch", command="evaluate"),
    Row("--load-best", "", "checkpoint=best", kind="switch"),
    Row("--load-checkpoint", "40", "checkpoint={}", "a model that `eval.keep_models=true` kept"),
    Row("--load-last-checkpoint", "", "checkpoint=last", kind="switch"),
    Row("--deterministic", "", "--deterministic", "the default", "switch"),
    Row("--stochastic", "", "--stochastic", kind="switch"),
    Row("--seed", "1", "--seed {}"),
    Row("--device", "cpu", "--device {}"),
    Row("-n, --n-timesteps", "1000", "", "`--episodes 20` sets the number of episodes"),
    Row("--n-envs", "1", "", "`--grid 3x2` shows episodes side by side"),
    Row("-o, --output-folder", "videos", "video={}/enjoy.mp4", "of `record_video`"),
    Row("--norm-reward", "", "", "rewards are not normalised", "switch"),
    Row("--reward-log", "rewards", "", "`--json > file` writes the outcome of each episode"),
    Row("--gym-packages", "panda_gym", "env.modules=[{}]", "for a zip; a run folder names its modules", "list"),
    Row("--env-kwargs", "n_bits:8", None, "an agent plays the environment that it was trained in", "pairs"),
    Row("--custom-objects", "", "", "nothing is unpickled from a run folder", "switch"),
    Row("--num-threads", "2", "", "one observation at a time needs one thread"),
    Row("--verbose", "1", "", "each episode is printed"),
    Row("-P, --progress", "", "", "each episode is printed", "switch"),
)
"""Flags of `enjoy.py` and `record_video.py`."""

SAVED_MODEL = tuple(row for row in ENJOY if row.kind == "run" or row.names.startswith("--load"))
"""Flags of `enjoy.py` that select a run and its model."""

EXPORT = (
    *SAVED_MODEL,
    Row("-orga, --organization", "me", "push={}", "or `owner/name`"),
    Row("-name, --repo-name", "reach", None, "write --push owner/reach"),
    Row("--commit-message", "First", "", "the commit names the run"),
)
"""Flags of `push_to_hub.py`."""

PLOT = (
    Row(
        "-a, --algo, --algos, -e, --env, -f, --exp-folder, --exp-folders",
        "-a dqn -e BitFlipping -f logs",
        "logs/dqn/BitFlipping-v0_1",
        "all runs of these algorithms whose name contains the environment's",
        "run",
    ),
    Row("-x, --x-axis", "time", "x=wall", exact=True),
    Row("-x, --x-axis", "episodes", None, "use -x steps or -x time", exact=True),
    Row("-x, --x-axis", "steps", "x={}"),
    Row("-y, --y-axis", "success", "y=success_rate", exact=True),
    Row("-y, --y-axis", "reward", "y=mean_reward", exact=True),
    Row("-y, --y-axis", "length", "y=mean_length", exact=True),
    Row("-k, --key", "results", "y=mean_reward", exact=True),
    Row("-k, --key", "successes", "y=success_rate", exact=True),
    Row("-o", "curves", "csv={}.csv", "the drawn numbers"),
    Row("-l, --labels", "DQN", "", "curves are named after what differs", "list"),
    Row("-max, --max-timesteps", "1000000", "", "whole curves are drawn"),
    Row("-min, --min-timesteps", "1000", "", "whole curves are drawn"),
    Row("-w, --episode-window", "100", "", "evaluations need no smoothing"),
    Row("--no-display", "", "", "`--show` opens a window", "switch"),
    Row("--no-million", "", "", "axes show whole numbers", "switch"),
    Row("-print, --print-n-trials", "", "", "the legend has the number of seeds", "switch"),
    Row("-median, --median", "", "", "the interquartile mean is drawn", "switch"),
)
"""Flags of `plots/all_plots.py` and `plots/plot_train.py`."""

CURVES = PLOT[:1]
"""Flags of `plots/all_plots.py` that select runs."""

CHECK = tuple(row for row in TRAIN if row.names in ("--gym-packages", "--env-kwargs"))
"""Flags of `train.py` about the environment."""

FLAGS = {
    "train": (*TRAIN, *TRIAL),
    "optimize": OPTIMIZE,
    "enjoy": ENJOY,
    "evaluate": ENJOY,
    "export": EXPORT,
    "collect": SAVED_MODEL,
    "plot": PLOT,
    "compare": CURVES,
    "report": CURVES,
    "check": CHECK,
}
"""The rows of each command."""

_ONE_NETWORK = (
    "algo.learning_starts=100 algo.batch_size=32 algo.gamma=0.99 algo.tau=1.0 algo.train_freq=4 algo.gradient_steps=1 "
    "algo.net_arch=[64,64] algo.target_update_interval=10000 algo.target_q_bounds=null"
)
_UPDATES = "algo.learning_starts=100 algo.batch_size=256 algo.gamma=0.99 algo.train_freq=1 algo.gradient_steps=1"
_ACTOR_CRITIC = f"algo.tau=0.005 algo.target_q_bounds=null {_UPDATES}"
_DETERMINISTIC = f"algo.learning_rate=0.001 algo.net_arch=[400,300] algo.action_noise=0.0 {_ACTOR_CRITIC}"
_ENTROPY = f"algo.learning_rate=0.0003 algo.net_arch=[256,256] {_ACTOR_CRITIC}"
SB3_DEFAULTS = {
    "dqn": f"algo.learning_rate=0.0001 algo.exploration_fraction=0.1 algo.exploration_final_eps=0.05 {_ONE_NETWORK}",
    "qrdqn": f"algo.learning_rate=5e-05 algo.exploration_fraction=0.005 algo.exploration_final_eps=0.01 "
    f"algo.n_quantiles=200 algo.kwargs.max_grad_norm=null {_ONE_NETWORK}",
    "sac": _ENTROPY,
    "tqc": _ENTROPY,
    "td3": _DETERMINISTIC,
    "ddpg": _DETERMINISTIC,
    "crossq": "algo.learning_rate=0.001 algo.kwargs.policy_kwargs.net_arch.pi=[256,256] "
    f"algo.kwargs.policy_kwargs.net_arch.qf=[1024,1024] {_UPDATES}",
}
"""Defaults of Stable-Baselines3 and sb3-contrib where rlher's differ: those of RL Zoo's files."""

PARAMETERS = (
    Row("n_timesteps", "n_timesteps:10000", "total_timesteps={}"),
    Row("n_envs", "n_envs:2", "n_envs={}"),
    Row("policy", "policy:'MultiInputPolicy'", "", "every goal environment has this one"),
    Row("normalize", "normalize:True", "normalize.enabled={}", "observations only; a dict is `normalize_kwargs`"),
    Row("normalize_kwargs.norm_obs", "normalize_kwargs:dict(norm_obs=True)", "normalize.enabled={}"),
    Row("normalize_kwargs.clip_obs", "normalize_kwargs:dict(clip_obs=10)", "normalize.clip={}"),
    *(
        Row(f"normalize_kwargs.{key}", f"normalize_kwargs:dict({key}={value})", "", "rewards are not normalised")
        for key, value in {"norm_reward": False, "clip_reward": 10, "gamma": 0.99}.items()
    ),
    Row(
        "normalize_kwargs.*",
        "normalize_kwargs:dict(norm_obs_keys=['observation'])",
        None,
        "normalize.enabled and normalize.clip are all there is",
    ),
    Row("monitor_kwargs", "monitor_kwargs:dict(info_keywords=('is_success',))", "", "every evaluation has the success"),
    Row("vec_env_wrapper", "vec_env_wrapper:my_module.MyWrapper", None, "wrap each environment with env.wrappers"),
    Row(
        "learning_rate",
        "learning_rate:lin_1e-3",
        "algo.learning_rate={} algo.learning_rate_schedule=linear",
        pattern="lin_(.+)",
    ),
    Row(
        "train_freq",
        "train_freq:(1,'episode')",
        "algo.train_freq=1 algo.train_freq_unit=episode",
        exact=True,
    ),
    Row("train_freq", "train_freq:(1,'step')", "algo.train_freq=1", exact=True),
    Row("gradient_steps", "gradient_steps:-1", "algo.gradient_steps=null", exact=True),
    Row("noise_std", "noise_std:0.1", "algo.action_noise={}"),
    Row("noise_type", "noise_type:'normal'", "", "the default", exact=True),
    Row("noise_type", "noise_type:'ornstein-uhlenbeck'", "algo.noise=ou", exact=True),
    Row("use_sde", "use_sde:True", "algo.use_sde=true", "by SB3's update step", exact=True),
    Row("use_sde", "use_sde:False", "", "the default", exact=True),
    Row("sde_sample_freq", "sde_sample_freq:64", "algo.kwargs.{key}={}"),
    Row("use_sde_at_warmup", "use_sde_at_warmup:True", "algo.kwargs.{key}={}"),
    Row("optimize_memory_usage", "optimize_memory_usage:True", "", "each observation is stored once in any case"),
    Row("env_wrapper", "env_wrapper:gymnasium.wrappers.RecordEpisodeStatistics", "env.wrappers=[{}]"),
    Row("frame_stack", "frame_stack:4", "env.wrappers=[{rlher.envs.frame_stack.FrameStack:{n_stack:{}}}]"),
    Row("callback", "callback:rl_zoo3.callbacks.ParallelTrainCallback", "callbacks=[{}]"),
    *(
        Row(f"env_kwargs.{key}", f"env_kwargs:dict({key}={value})", "env.{key}={}", "of BitFlipping-v0")
        for key, value in {"n_bits": 8, "continuous": True, "fixed_goal": True}.items()
    ),
    Row("env_kwargs.max_episode_steps", "env_kwargs:dict(max_episode_steps=50)", "env.max_episode_steps={}"),
    Row("env_kwargs.*", "env_kwargs:dict(reward_type='dense')", "env.kwargs.{key}={}"),
    *(
        Row(key, f"{key}:{value}", "her.{key}={}", "of old files")
        for key, value in {"n_sampled_goal": 4, "goal_selection_strategy": "future"}.items()
    ),
    Row("online_sampling", "online_sampling:True", "", "the only way"),
    Row("max_episode_length", "max_episode_length:50", "", "not needed"),
    Row("model_class", "model_class:'sac'", "", "`--algo` chooses the algorithm"),
    Row("replay_buffer_class", "replay_buffer_class:HerReplayBuffer", "", "rlher's replay buffer is used"),
    Row("replay_buffer_kwargs.online_sampling", "replay_buffer_kwargs:dict(online_sampling=True)", "", "the only way"),
    Row(
        "replay_buffer_kwargs.max_episode_length", "replay_buffer_kwargs:dict(max_episode_length=50)", "", "not needed"
    ),
    Row(
        "replay_buffer_kwargs.handle_timeout_termination",
        "replay_buffer_kwargs:dict(handle_timeout_termination=True)",
        "",
        "the default",
        exact=True,
    ),
    Row(
        "replay_buffer_kwargs.handle_timeout_termination",
        "replay_buffer_kwargs:dict(handle_timeout_termination=False)",
        None,
        "the end of a time limit is never terminal; leave it out",
    ),
    Row("replay_buffer_kwargs.*", "replay_buffer_kwargs:dict(n_sampled_goal=4)", "her.{key}={}"),
    Row(
        "policy_kwargs.net_arch",
        "policy_kwargs:dict(net_arch=dict(pi=[32,32],qf=[64]))",
        "algo.kwargs.policy_kwargs.net_arch={}",
        "of algorithms with actor and critics",
        pattern=r"\{.*\}",
    ),
    Row("policy_kwargs.net_arch", "policy_kwargs:dict(net_arch=[64,64])", "algo.net_arch={}"),
    Row("policy_kwargs.n_critics", "policy_kwargs:dict(n_critics=1)", "algo.n_critics={}"),
    Row("policy_kwargs.n_quantiles", "policy_kwargs:dict(n_quantiles=25)", "algo.n_quantiles={}", "of TQC and QR-DQN"),
    Row("policy_kwargs.activation_fn", "policy_kwargs:dict(activation_fn=nn.ReLU)", "algo.activation=relu", exact=True),
    Row("policy_kwargs.activation_fn", "policy_kwargs:dict(activation_fn=nn.Tanh)", "algo.activation=tanh", exact=True),
    Row("policy_kwargs.activation_fn", "policy_kwargs:dict(activation_fn=nn.ELU)", "algo.activation=elu", exact=True),
    Row("policy_kwargs.activation_fn", "policy_kwargs:dict(activation_fn=nn.GELU)", "algo.activation=gelu", exact=True),
    Row("policy_kwargs.activation_fn", "policy_kwargs:dict(activation_fn=nn.SiLU)", "algo.activation=silu", exact=True),
    Row(
        "policy_kwargs.activation_fn",
        "policy_kwargs:dict(activation_fn=nn.LeakyReLU)",
        None,
        "algo.activation is relu, tanh, elu, gelu or silu",
    ),
    Row(
        "policy_kwargs.*_class",
        "policy_kwargs:dict(optimizer_class=th.optim.Adam)",
        "",
        "the default",
        pattern=r"(?:.*\.)?(?:Adam|CombinedExtractor)",
    ),
    Row(
        "policy_kwargs.*_class",
        "policy_kwargs:dict(optimizer_class=th.optim.AdamW)",
        None,
        "networks are SB3's of MultiInputPolicy, trained with Adam; leave the class out",
    ),
    Row("policy_kwargs.*", "policy_kwargs:dict(use_expln=True)", "algo.kwargs.policy_kwargs.{key}={}"),
    Row("*", "batch_size:256", "algo.{key}={}", "every other name"),
)
"""Hyperparameters of ``-params`` and of RL Zoo's YAML files; the first row that fits counts."""
