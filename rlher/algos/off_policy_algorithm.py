"""The base of the algorithms: a training loop whose environments may step during updates, and a faster update.

The loop: choose actions, send them, update while the environments step, receive, store, call callbacks. The losses are
defined by each algorithm, for example in :mod:`rlher.algos.sac`.
"""

from collections import defaultdict, deque
from typing import Any, Self

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3 import HerReplayBuffer as SB3HerReplayBuffer
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.noise import ActionNoise
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm as SB3OffPolicyAlgorithm
from stable_baselines3.common.policies import BaseModel
from stable_baselines3.common.type_aliases import MaybeCallback, PyTorchObs, RolloutReturn, TrainFreq
from stable_baselines3.common.utils import should_collect_more_steps
from stable_baselines3.common.vec_env import SubprocVecEnv, VecEnv

from rlher.algos.compilation import skip_compiler_import
from rlher.algos.exploration import RandomActions, sample_relay_goals
from rlher.algos.networks import find_joined_keys, has_training_mode
from rlher.algos.observation_normalizer import NormalizedExtractor, ObservationNormalizer
from rlher.algos.target_q_bounds import Bounds
from rlher.algos.update_batch import LoggedValues, UpdateBatch
from rlher.core.workers import WorkerLost
from rlher.her.replay_buffer import HerReplayBufferSamples

COUNTERS = (
    "num_timesteps",
    "_episode_num",
    "_n_updates",
    "_n_calls",
    "_current_progress_remaining",
    "exploration_rate",
)
"""Numbers that Stable-Baselines3's algorithms keep as attributes, each where the algorithm has it."""

EPISODE_BUFFERS = ("ep_info_buffer", "ep_success_buffer")
"""Attributes with the returns, lengths and successes of the last episodes."""


class OffPolicyAlgorithm(SB3OffPolicyAlgorithm):
    """Stable-Baselines3's ``OffPolicyAlgorithm`` with a faster loop and update: same mathematics, same files.

    With ``overlap``, the updates after a rollout are done during the first step of the next rollout. The actions of
    that step are chosen before these updates. This saves time only if the environments run in worker processes. The
    results do not depend on where they run.

    The *fast update* concatenates observations once, not once per network, if all keys are vectors. Unused gradients
    are not computed. The optimizer step and the target update are each one call for all parameters.

    A policy with :class:`~rlher.algos.observation_normalizer.NormalizedExtractor` normalises observations. The loop
    adds each observation of the environments to the statistics, which all networks of the policy share.

    This class and its subclasses have arguments that Stable-Baselines3 does not have. They are keyword arguments, and
    are saved with a model. Stable-Baselines3's own class can load the model and ignores them.

    :param overlap: update while the environments step.
    :param target_q_bounds: lowest and highest value of the target network; either may be None. See
        :func:`~rlher.algos.target_q_bounds.resolve_target_q_bounds`.
    :param compile: run the losses through ``torch.compile`` if observations are vectors.
    :param bf16: compute wide layers of the losses in bf16; weights stay float32.
    :param random_action: fraction of uniformly random actions in training, besides the action noise (OpenAI baselines'
        ``random_eps``; Plappert et al. 2018, arXiv:1802.09464).
    :param random_action_hold: number of steps for which a random action is held.
    :param relay_probability, relay_distance: see :func:`~rlher.algos.exploration.sample_relay_goals`; the environments
        need :class:`~rlher.envs.relay.RelayGoals`.
    """

    gradient_steps_due: int = 0
    """Number of gradient steps that are due but not done yet; always 0 between rollouts without ``overlap``."""
    normalizer: ObservationNormalizer | None
    """The statistics of the observations; None if they are not normalised."""
    random_actions: RandomActions
    """Replaces some of the agent's actions."""
    optimizers: list[th.optim.Optimizer]
    """Optimizers whose learning rate follows the schedule."""
    joined_keys: list[str] | None
    """The keys of observations in the order in which all networks join them, see
    :func:`~rlher.algos.networks.find_joined_keys`."""
    has_training_mode: bool
    """Whether the policy may compute something else during updates, as with Dropout."""
    env: Any  # Stable-Baselines3 sets these three, and declares that they may be None
    replay_buffer: Any
    train_freq: Any

    def __init__(
        self,
        *args: Any,
        overlap: bool = False,
        target_q_bounds: Bounds | None = None,
        compile: bool = False,
        bf16: bool = False,
        random_action: float = 0.0,
        random_action_hold: int = 1,
        relay_probability: float = 0.0,
        relay_distance: float = 0.03,
        **kwargs: Any,
    ) -> None:
        self.overlap, self.target_q_bounds, self.compile, self.bf16 = overlap, target_q_bounds, compile, bf16
        self.random_action, self.random_action_hold = random_action, random_action_hold
        self.relay_probability, self.relay_distance = relay_probability, relay_distance
        if not compile:
            skip_compiler_import()
        super().__init__(*args, **kwargs)

    # ------------------------------------------------------------------------- defined by each algorithm

    def setup_update(self) -> None:
        """Set ``optimizers`` and what else ``update`` needs. It is not saved: a model is set up again when loaded."""
        raise NotImplementedError

    def update(self, batch: UpdateBatch, gradient_step: int) -> tuple[LoggedValues, th.Tensor]:
        """Do one update.

        :param batch: batch of :meth:`make_batch`.
        :param gradient_step: index of this update among the gradient steps of a ``train`` call.
        :return: values to log by name, which are numbers or tensors with one element, and the TD errors
            (…, batch, any).
        """
        raise NotImplementedError

    def act(self, obs: PyTorchObs, deterministic: bool) -> th.Tensor:
        """Return actions (batch, …) for observations of a batch, in float32. Continuous actions are in [-1, 1]."""
        raise NotImplementedError

    # ------------------------------------------------------------------------------------------ construction

    def _setup_model(self) -> None:
        if self.use_sde:
            raise ValueError("use_sde, state-dependent exploration, is not supported; leave it out")
        super()._setup_model()
        before = {*vars(self)}
        extractors = [module for module in self.policy.modules() if isinstance(module, NormalizedExtractor)]
        self.normalizer = extractors[0].normalizer if extractors else None
        for extractor in extractors[1:]:
            extractor.normalizer = extractors[0].normalizer
        space: Any = self.action_space
        self.random_actions = RandomActions(space, self.random_action, self.random_action_hold, self.n_envs)
        self.joined_keys = find_joined_keys(self.policy)
        self.has_training_mode = has_training_mode(self.policy)
        self.setup_update()
        derived = [name for name in vars(self) if name not in before]
        self._rebuilt_on_load = ["_rebuilt_on_load", "gradient_steps_due", *derived]

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), *self._rebuilt_on_load]

    # ------------------------------------------------------------------------------------------------- the loop

    def learn(
        self,
        total_timesteps: int,
        callback: MaybeCallback = None,
        log_interval: int = 4,
        tb_log_name: str = "run",
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
    ) -> Self:
        """Learn, as ``OffPolicyAlgorithm.learn`` does. Updates that are due at the end are done after all callbacks.

        :raises ValueError: ``train_freq`` is below 1; with ``overlap``, the buffer calls ``compute_reward``
            in another process.
        """
        starts_anew = reset_num_timesteps or self._last_obs is None
        total_timesteps, callback = self._setup_learn(
            total_timesteps, callback, reset_num_timesteps, tb_log_name, progress_bar
        )

        if starts_anew:  # the environments were reset
            self.update_normalizer(self._last_obs)
        if self.overlap:
            _require_local_rewards(self.env, self.replay_buffer)
        if self.train_freq.frequency < 1:
            raise ValueError("train_freq must be at least 1.")  # no step would ever be collected

        callback.on_training_start(locals(), globals())
        while self.num_timesteps < total_timesteps:
            rollout = self.collect_rollouts(
                self.env,
                callback,
                self.train_freq,
                self.replay_buffer,
                self.action_noise,
                self.learning_starts,
                log_interval,
            )
            if not rollout.continue_training:
                break
            if self.num_timesteps > self.learning_starts:
                self.gradient_steps_due = rollout.episode_timesteps if self.gradient_steps < 0 else self.gradient_steps
            if not self.overlap:
                self._do_due_updates()
        callback.on_training_end()
        self._do_due_updates()
        return self

    def collect_rollouts(
        self,
        env: Any,
        callback: BaseCallback,
        train_freq: TrainFreq,
        replay_buffer: ReplayBuffer,
        action_noise: ActionNoise | None = None,
        learning_starts: int = 0,
        log_interval: int | None = None,
    ) -> RolloutReturn:
        """Play ``train_freq`` steps or episodes and store them. During the first step, do the updates that are due.

        :return: number of steps and of episodes, and whether training continues; it does not if a callback ended it.
        """
        num_collected_steps = num_collected_episodes = 0
        callback.on_rollout_start()
        continues = True
        while continues and should_collect_more_steps(train_freq, num_collected_steps, num_collected_episodes):
            actions, buffer_actions = self._sample_action(learning_starts, action_noise, env.num_envs)
            try:
                env.step_async(actions)
                self._do_due_updates()
                new_obs, rewards, dones, infos = env.step_wait()
            except WorkerLost as lost:  # this step has no result
                self.start_new_episodes(env.replace_lost(lost))
                continue
            self.update_normalizer(new_obs)

            self.num_timesteps += env.num_envs
            num_collected_steps += 1
            callback.update_locals(locals())
            continues = callback.on_step()  # takes effect after storing: a checkpoint repeats stored actions only

            self._update_info_buffer(infos, dones)
            self._store_transition(replay_buffer, buffer_actions, new_obs, rewards, dones, infos)
            self._update_current_progress_remaining(self.num_timesteps, self._total_timesteps)
            self._on_step()
            for env_idx in dones.nonzero()[0].tolist():
                num_collected_episodes += 1
                self._episode_num += 1
                if action_noise is not None:
                    action_noise.reset(**({"indices": [env_idx]} if env.num_envs > 1 else {}))
                self.random_actions.reset(env_idx)
                if log_interval is not None and self._episode_num % log_interval == 0:
                    self.dump_logs()
        if continues:
            callback.on_rollout_end()
        return RolloutReturn(num_collected_steps * env.num_envs, num_collected_episodes, continues)

    def _do_due_updates(self) -> None:
        updates, self.gradient_steps_due = self.gradient_steps_due, 0
        if updates > 0:
            self.train(gradient_steps=updates, batch_size=self.batch_size)

    def start_new_episodes(self, obs: Any) -> None:
        """Truncate the running episodes, because the environments were reset or built again.

        :param obs: (n_envs, …) first observations of the new episodes, by key.
        """
        self.replay_buffer.truncate_last_trajectory()
        self._last_obs = obs
        self.update_normalizer(self._last_obs)
        self.random_actions.reset()

    def update_normalizer(self, obs: Any) -> None:
        """Add (n, …) raw observations by key to the statistics, if observations are normalised."""
        if self.normalizer is not None:
            self.normalizer.update(obs)

    def loop_state_dict(self) -> dict[str, Any]:
        """Return the state of the loop: counters, the last episodes, due updates and random actions."""
        return {
            "counters": {name: getattr(self, name) for name in COUNTERS if hasattr(self, name)},
            "episodes": {name: list(getattr(self, name) or ()) for name in EPISODE_BUFFERS},
            "gradient_steps_due": self.gradient_steps_due,
            "action_space": self.action_space.np_random.bit_generator.state,
            "random_actions": self.random_actions.state_dict(),
        }

    def load_loop_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a value of :meth:`loop_state_dict`, which may have been JSON. Resets of environments come before.

        :raises Exception: the state belongs to another model.
        """
        for name in COUNTERS:
            if hasattr(self, name):
                setattr(self, name, type(getattr(self, name))(state["counters"][name]))
        for name in EPISODE_BUFFERS:
            setattr(self, name, deque(state["episodes"][name], maxlen=self._stats_window_size))
        self.gradient_steps_due = int(state["gradient_steps_due"])
        self.action_space.np_random.bit_generator.state = state["action_space"]
        self.random_actions.load_state_dict(state["random_actions"])

    # ------------------------------------------------------------------------------------------------- acting

    def _sample_action(
        self, learning_starts: int, action_noise: ActionNoise | None = None, n_envs: int = 1
    ) -> tuple[np.ndarray, np.ndarray]:
        """Choose actions as Stable-Baselines3 does, some for a relay sub-goal, and replace some by random ones.

        :return: (n_envs, …) actions, and the same actions as the buffer stores them: of a ``Box``, scaled to [-1, 1].
        """
        obs: Any = self._last_obs
        if self.relay_probability > 0:  # only for choosing actions; the buffer stores the task's goals
            self._last_obs = sample_relay_goals(obs, self.relay_probability, self.relay_distance)
        actions, buffer_actions = super()._sample_action(learning_starts, action_noise, n_envs)
        self._last_obs = obs
        replaced = self.random_actions.replace(actions, warm_up=self.num_timesteps < learning_starts)
        if replaced and isinstance(self.action_space, spaces.Box):  # otherwise both are one array
            buffer_actions[replaced] = self.policy.scale_action(actions[replaced])
        return actions, buffer_actions

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = False
    ) -> tuple[np.ndarray, Any]:
        """Return the actions that Stable-Baselines3 returns, in two thirds of the time for most policies."""
        if self.joined_keys is None:
            return super().predict(observation, state, episode_start, deterministic)
        if self.policy.training:
            self.policy.set_training_mode(False)
        with th.no_grad():
            joined = self.join_obs(observation)
            actions = self.act(joined.reshape(-1, joined.shape[-1]), deterministic).cpu().numpy()
        actions = actions.reshape(joined.shape[:-1] + (self.action_space.shape or ()))
        if self.policy.squash_output:
            actions = self.policy.unscale_action(actions)
        return actions, state

    # --------------------------------------------------------------------------------------------- the update

    def train(self, gradient_steps: int, batch_size: int = 64) -> None:
        """Update ``gradient_steps`` times on batches of ``batch_size`` transitions, and log the mean of each loss."""
        self._update_learning_rate(self.optimizers)
        if self.has_training_mode:
            self.policy.set_training_mode(True)  # ended by `predict`
        history: dict[str, list[Any]] = defaultdict(list)
        for gradient_step in range(gradient_steps):
            # The samples of SB3's own buffers have only the first of these fields.
            samples = HerReplayBufferSamples(*self.replay_buffer.sample(batch_size, env=self._vec_normalize_env))
            self._n_updates += 1
            logged, errors = self.update(self.make_batch(samples), gradient_step)
            for name, value in logged.items():
                history[name].append(value)
            if samples.indices is not None:
                self.replay_buffer.update_priorities(samples.indices, _error_per_transition(errors))
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        for name, values in history.items():
            self.logger.record(f"train/{name}", sum(map(float, values)) / len(values))

    def make_batch(self, samples: HerReplayBufferSamples) -> UpdateBatch:
        """Return what the losses need. Algorithms add their random numbers, and demonstrations to clone."""
        discounts = self.gamma if samples.discounts is None else samples.discounts
        return UpdateBatch(
            obs=self.join_obs(samples.observations),
            actions=samples.actions,
            next_obs=self.join_obs(samples.next_observations),
            rewards=samples.rewards,
            discounts=(1 - samples.dones) * discounts,
            weights=samples.weights,
        )

    # ------------------------------------------------------------------------------------ parts of the losses

    def join_obs(self, obs: Any) -> Any:
        """Join observations by key to one tensor (batch, features), normalised, which all networks read.

        The observations may also be arrays, or of a single step. Unless all keys are vectors, they are returned as they
        are. SB3 converts, flattens and concatenates the keys once per network.
        """
        if self.joined_keys is None:
            return obs
        vectors = [th.as_tensor(obs[key], dtype=th.float32, device=self.device) for key in self.joined_keys]
        joined = th.cat(vectors, dim=-1)
        return joined if self.normalizer is None else self.normalizer(joined)

    def features(self, network: BaseModel, obs: PyTorchObs) -> th.Tensor:
        """Return the features (batch, features) that a network reads, from the observations in a batch.

        If all keys are vectors, the batch has them joined. Otherwise each network extracts its own features.
        """
        if self.joined_keys is not None:
            assert isinstance(obs, th.Tensor)
            return obs
        return network.extract_features(obs, network.features_extractor)  # type: ignore[arg-type]

    def clamp_target_q(self, values: th.Tensor) -> th.Tensor:
        """Return values of the target network, clamped to ``target_q_bounds``."""
        return values if self.target_q_bounds is None else values.clamp(*self.target_q_bounds)

    @property
    def compiles_losses(self) -> bool:
        """Whether losses are compiled. Of extractors for images, torch would compile parts again and again."""
        return self.compile and self.joined_keys is not None


def _require_local_rewards(env: VecEnv, buffer: Any) -> None:
    """Raise ValueError if the buffer asks worker processes for rewards, because they cannot answer during a step."""
    has_own_function = getattr(buffer, "compute_reward", None) is not None
    is_hindsight = isinstance(buffer, SB3HerReplayBuffer)
    if isinstance(env.unwrapped, SubprocVecEnv) and is_hindsight and not has_own_function:
        raise ValueError(
            "overlap=True samples while environments in other processes step, so compute_reward must run in this "
            "process; pass it to rlher.HerReplayBuffer."
        )


def _error_per_transition(errors: th.Tensor) -> th.Tensor:
    """Return the mean absolute TD error (batch,) over critics and outputs, from errors (…, batch, any)."""
    flat = errors.detach().abs()
    return flat.reshape(-1, *flat.shape[-2:]).mean(dim=(0, 2))
