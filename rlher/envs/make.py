"""Build one environment from its config, with all wrappers."""

import gymnasium as gym
from gymnasium.envs.registration import find_highest_version, get_env_id, parse_env_id

from rlher.config.environment import EnvConfig
from rlher.core.errors import RunError, UserError, describe_error, first_line
from rlher.core.user_code import instantiate
from rlher.envs.episode_info import RecordEpisodeInfo
from rlher.envs.registration import entry_module, render_modes, require_registered
from rlher.envs.relay import RelayGoals
from rlher.envs.simulators import aim_mujoco_camera, correct_simulator, simulator_construction, use_offscreen_sdl
from rlher.envs.wrappers import ActionRepeat, RewardOffset, TruncateAfterFall

GOAL_KEYS = ("observation", "achieved_goal", "desired_goal")

WRAPPER_ADVICE = "wrap it in rlher.envs.goal_wrapper.GoalEnvWrapper."


def make_env(config: EnvConfig, render_mode: str | None = None, training: bool = False) -> gym.Env:
    """Return one goal environment.

    ``info`` always has ``is_success``. If ``config.crash_key`` is set, ``info`` of each step has ``is_crash``. Episodes
    are truncated after ``config.max_episode_steps``. ``reset`` and ``step`` raise RunError for any error of the
    environment.

    :param render_mode: ``"human"``, ``"rgb_array"`` or ``None``; ignored if not in the environment's
        ``metadata["render_modes"]``.
    :param training: add the training aids. The environment adds ``reward_offset``, and truncates an episode after a
        fall. If ``config.success_reward`` is set, ``info`` has the diagnostics of an episode. A repeated action gets
        the reward of its last step, not the sum.
    :raises UserError: unknown id, module or keyword argument, missing extra, or not a goal environment.
    :raises RunError: the environment's constructor raised without any arguments from the user.
    """
    env = make_base_env(config, render_mode)
    require_goal_interface(env, config.id)
    env = RecordEpisodeInfo(env, config, diagnostics=training and config.success_reward is not None)
    if config.action_repeat > 1:
        env = ActionRepeat(env, config.action_repeat, last_reward=training)
    if training and config.fall_height is not None:
        if env.observation_space["achieved_goal"].shape[0] < 3:  # type: ignore[index]
            raise UserError(
                f"env.fall_height needs goals with a height, which {config.id} does not have; leave it out."
            )
        env = TruncateAfterFall(env, config.fall_height)
    if config.relay.enabled:
        env = _add_relay_goals(env, config)
    if training and config.reward_offset:
        env = RewardOffset(env, config.reward_offset)
    return env


def _add_relay_goals(env: gym.Env, config: EnvConfig) -> gym.Env:
    """Return an environment with relay sub-goals.

    :raises UserError: ``reward_range`` lacks an end, or ``relay`` does not fit the environment.
    """
    low, high = config.reward_range or (None, None)
    if low is None or high is None:
        raise UserError(
            f"env.relay.enabled=true needs both ends of env.reward_range, which {config.id} does not have; set them."
        )
    size = env.observation_space["desired_goal"].shape[0]  # type: ignore[index]
    state_size = env.observation_space["observation"].shape[0]  # type: ignore[index]
    hand, origin = config.relay.hand, config.relay.origin
    if len(hand) != 2 or hand[1] - hand[0] != size or hand[1] > state_size:
        raise UserError(
            f"env.relay.hand={hand} is not valid; use indices [first, end) of {size} of the {state_size} entries of "
            "`observation`."
        )
    if len(origin) != size:
        raise UserError(f"env.relay.origin={origin} is not valid; use {size} numbers, as goals have.")
    return RelayGoals(env, hand, origin, config.relay.reach_threshold, (low, high))


def make_base_env(config: EnvConfig, render_mode: str | None = None) -> gym.Env:
    """Make an environment with ``env.wrappers`` and the corrections for its simulator; goals are not required.

    :raises UserError: unknown id, module, wrapper or keyword argument, or missing extra.
    :raises RunError: the environment's constructor raised without any arguments from the user.
    """
    if render_mode not in (None, "human"):
        use_offscreen_sdl()
    require_registered(config.id, config.modules)
    env = _construct(config, render_mode)
    aim_mujoco_camera(env, config.camera)
    for wrapper in config.wrappers:
        env = instantiate("env.wrappers", wrapper, gym.Env, env)
    return correct_simulator(env)


def require_goal_interface(env: gym.Env, name: str) -> None:
    """Raise UserError unless an environment has the three observation keys and ``compute_reward``."""
    space = env.observation_space
    keys = list(space.spaces) if isinstance(space, gym.spaces.Dict) else [type(space).__name__]
    if missing := [key for key in GOAL_KEYS if key not in keys]:
        missing_text = f"its observations ({', '.join(keys)}) have no {' and no '.join(missing)}"
        raise UserError(f"{name} is not a goal environment: {missing_text}; {WRAPPER_ADVICE}")
    if not env.has_wrapper_attr("compute_reward"):
        raise UserError(f"{name} has no method compute_reward(achieved_goal, desired_goal, info); {WRAPPER_ADVICE}")


def _construct(config: EnvConfig, render_mode: str | None) -> gym.Env:
    kwargs = dict(config.kwargs)
    if render_mode is not None and render_mode in render_modes(config):
        kwargs["render_mode"] = render_mode
    try:
        with simulator_construction(entry_module(config.id).partition(".")[0], kwargs):
            # The contract check replaces gymnasium's own checker, which prints many lines and takes time.
            return gym.make(config.id, max_episode_steps=config.max_episode_steps, disable_env_checker=True, **kwargs)
    except gym.error.Error as error:
        namespace, name, version = parse_env_id(config.id)
        newest = find_highest_version(namespace, name)
        if version is not None and newest is not None and version < newest:  # Fetch-v1 of mujoco_py
            newest_id = get_env_id(namespace, name, newest)
            raise UserError(f"{config.id} is out of date and cannot run any more; use env={newest_id}.") from error
        raise UserError(f"{config.id} cannot be made: {first_line(error)}.") from error
    except (RunError, UserError, KeyboardInterrupt):
        raise
    except BaseException as error:
        if "unexpected keyword argument" in str(error):
            cause = str(error).partition(" was raised from the environment creator")[0]  # gymnasium adds all kwargs
            raise UserError(f"{config.id} does not take env.kwargs={kwargs}: {cause}.") from error
        arguments_text = f" cannot be made with env.kwargs={kwargs}" if kwargs else ""
        error_type = UserError if kwargs else RunError
        raise error_type(f"{config.id}{arguments_text}: its constructor raised {describe_error(error)}.") from error
