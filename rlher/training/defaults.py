"""What a config leaves open, and what people get wrong in it, resolved before a run and said aloud."""

from dataclasses import replace

from rlher.algos.compilation import choose_compilation
from rlher.algos.threads import choose_threads
from rlher.config.training import TrainConfig

DRY_RUN_STEPS = 400


def resolve(config: TrainConfig) -> tuple[TrainConfig, list[str]]:
    """Fill what is left open in a config whose environment is already probed.

    :return: the config with every number decided, and one sentence per decision.
    """
    notes: list[str] = []
    if config.dry_run:
        config = _shortened(config)
        notes.append(f"dry run: {config.total_timesteps} steps")
    algo = config.algo
    episode = config.env.max_episode_steps or 0
    # Every environment plays an episode of its own before the first update, so that hindsight has goals to choose from.
    first_episodes = episode * config.n_envs
    learning_starts = max(algo.learning_starts or 0, first_episodes)
    if learning_starts >= config.total_timesteps:
        learning_starts = config.total_timesteps // 2
        notes.append(f"learning_starts {learning_starts}: half of a run that would otherwise learn nothing")
    elif learning_starts != algo.learning_starts:
        why = "one episode" + (" each" if config.n_envs > 1 else "")
        notes.append(f"learning_starts {learning_starts}: {why} of at most {episode} steps")
    gradient_steps = algo.gradient_steps
    if gradient_steps is None:
        gradient_steps = (
            algo.train_freq * config.n_envs
        )  # SB3's 1 would mean fewer updates the more environments (#704)
        if gradient_steps > 1:
            notes.append(f"gradient_steps {gradient_steps}: one update per stored transition")
    compiling, sentence = _compiling(config, learning_starts, gradient_steps)
    if sentence:
        notes.append(sentence)
    threads = config.threads
    if threads is None:
        threads, sentence = choose_threads(algo.batch_size, algo.net_arch)
        notes.append(sentence)
    checkpoint = config.checkpoint
    if config.her.copy_info_dict and checkpoint.every is not None:
        checkpoint = replace(checkpoint, every=None)
        notes.append("no checkpoints: her.copy_info_dict keeps infos, which may be anything and not be written down")
    freq = config.eval.freq or max(config.total_timesteps // 20, 1)
    return replace(
        config,
        algo=replace(algo, learning_starts=learning_starts, gradient_steps=gradient_steps),
        eval=replace(config.eval, freq=freq),
        engine=replace(config.engine, compile=compiling),
        checkpoint=checkpoint,
        threads=threads,
    ), notes


def _compiling(config: TrainConfig, learning_starts: int, gradient_steps: int) -> tuple[str, str]:
    """Decide ``engine.compile``, and say it."""
    if config.engine.name == "sb3":
        return "off", "update step of Stable-Baselines3"
    rounds = (config.total_timesteps - learning_starts) // (config.algo.train_freq * config.n_envs)
    compiling, sentence = choose_compilation(config.engine.compile, rounds * gradient_steps)
    return "on" if compiling else "off", sentence


def _shortened(config: TrainConfig) -> TrainConfig:
    return replace(
        config,
        total_timesteps=DRY_RUN_STEPS,
        algo=replace(config.algo, learning_starts=DRY_RUN_STEPS // 4, batch_size=min(config.algo.batch_size, 32)),
        eval=replace(config.eval, freq=DRY_RUN_STEPS // 2, episodes=2, final_episodes=5),
    )
