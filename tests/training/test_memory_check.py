"""The memory check: a buffer that does not fit is refused with a size that does."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from rlher.her.replay_buffer import HerReplayBuffer
from rlher.training import memory_check, setup
from tests.conftest import TINY
from tests.support.tiers import slow_except

BITS = ("algo=dqn", "env=BitFlipping-v0", "recipe=null", *TINY)


@pytest.mark.parametrize(
    "option", slow_except(["n_envs=2"], ["her.priority=uniform", "her.priority=energy", "n_envs=2"])
)
def test_the_printed_size_is_the_size_of_the_full_buffer(rlher, monkeypatch, option):
    models = []
    build = setup.build_model
    monkeypatch.setattr(setup, "build_model", lambda *arguments: models.append(build(*arguments)) or models[-1])
    done = rlher(
        "train", *BITS, option, "env.kwargs.n_bits=25", "vec_env=dummy", "total_timesteps=1000", "eval.freq=1000"
    )
    assert done.code == 0, done.err
    printed = float(re.search(r"1,000 transitions, at most ([\d.]+) MB", done.err)[1]) * memory_check.MB
    buffer: HerReplayBuffer = models[0].replay_buffer
    actual = buffer.nbytes + (1000 * memory_check.PRIORITY_BYTES if "energy" in option else 0)
    assert actual <= 1.02 * printed, "a little more when random play ends episodes early"
    assert printed <= 1.1 * actual


def test_a_buffer_that_does_not_fit_is_refused_with_a_size_that_does(rlher, monkeypatch):
    free = memory_check.RESERVED_BYTES + 10**6
    monkeypatch.setattr(memory_check.psutil, "virtual_memory", lambda: SimpleNamespace(available=free))
    refused = rlher("train", *BITS, "total_timesteps=100_000", "eval.freq=100_000")
    assert refused.code == 2
    megabytes, fits = re.search(r"(\d+) MB for 100,000 .*algo\.buffer_size=(\d+)", refused.err).groups()
    assert 10 < int(megabytes) < 50
    assert not Path("logs").exists()
    stop = "callbacks=[{stable_baselines3.common.callbacks:StopTrainingOnMaxEpisodes: {max_episodes: 1}}]"
    done = rlher("train", *BITS, "total_timesteps=100_000", f"algo.buffer_size={fits}", stop)
    assert done.code == 0, done.err
    larger = rlher("train", *BITS, "total_timesteps=100_000", f"algo.buffer_size={int(fits) * 11 // 10}")
    assert larger.code == 2
    assert rlher("train", *BITS, "total_timesteps=60").code == 0, "a short run fills little of its buffer"
