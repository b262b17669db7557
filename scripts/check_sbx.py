"""Train, save, load and continue SBX's algorithms (JAX) with our buffer: `python scripts/check_sbx.py [SAC TQC …]`.

A script and not a test, so that the tests need no JAX. SBX comes with `pip install rlher[bench]`.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.envs import BitFlippingEnv

from rlher import HerReplayBuffer

STEPS = 400


def main(names: list[str]) -> None:
    """Check each algorithm and print the result."""
    try:
        import sbx
    except ImportError:
        sys.exit("sbx-rl is not installed: pip install 'rlher[bench]' (or pip install sbx-rl).")
    for name in names or ["SAC", "TQC", "TD3"]:
        print(f"{name}: {check(getattr(sbx, name))}", flush=True)


def check(algorithm: Any) -> str:
    """Train, save, load and continue training with two environments; return the result."""
    env = make_vec_env(BitFlippingEnv, 2, env_kwargs={"n_bits": 4, "continuous": True}, seed=0)
    model = algorithm(
        "MultiInputPolicy",
        env,
        replay_buffer_class=HerReplayBuffer,
        replay_buffer_kwargs={"n_sampled_goal": 4, "goal_selection_strategy": "future"},
        policy_kwargs={"net_arch": [16]},
        learning_starts=50,
        batch_size=32,
        buffer_size=2000,
        seed=0,
    )
    model.learn(STEPS)
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model")
        model.save_replay_buffer(Path(folder) / "buffer")
        again = algorithm.load(Path(folder) / "model", env=env)
        again.load_replay_buffer(Path(folder) / "buffer")
    held = again.replay_buffer.n_transitions
    if not isinstance(again.replay_buffer, HerReplayBuffer) or held != model.replay_buffer.n_transitions:
        sys.exit(f"{algorithm.__name__}: the loaded buffer is not the one that was saved.")
    again.learn(STEPS // 4, reset_num_timesteps=False)
    grown = again.replay_buffer.n_transitions
    return f"trained {STEPS} steps, saved, loaded {held} transitions, trained on to {grown}"


if __name__ == "__main__":
    main(sys.argv[1:])
