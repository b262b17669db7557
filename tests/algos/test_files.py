"""Models saved by our classes load in SB3's and the reverse, and continue training identically."""

import io
import subprocess
import sys

import pytest
import torch as th

from rlher.algos import ALGORITHMS
from tests.algos.test_faithful import require_same
from tests.support.models import THEIRS, ours, theirs, train, weights


@pytest.mark.parametrize("name", THEIRS)
@pytest.mark.parametrize("from_ours", [True, False])
def test_models_load_in_either_class_and_continue_identically(name, from_ours) -> None:
    own = ALGORITHMS[name].load()
    saved, reader = (ours(name), THEIRS[name]) if from_ours else (theirs(name), own)
    train(saved, 5)
    file = io.BytesIO()
    saved.save(file)
    file.seek(0)
    loaded = reader.load(file, env=saved.env, device="cpu")
    assert type(loaded) is reader
    for key, value in weights(saved).items():
        assert th.equal(weights(loaded)[key], value), key
    loaded.replay_buffer, loaded._logger = saved.replay_buffer, saved.logger
    loaded._current_progress_remaining = saved._current_progress_remaining
    state = saved.replay_buffer.rng.bit_generator.state
    train(saved, 5)
    saved.replay_buffer.rng.bit_generator.state = state
    train(loaded, 5)
    require_same(loaded, saved)


@pytest.mark.parametrize("name", THEIRS)
def test_a_saved_model_has_the_same_entries_as_sb3s(name) -> None:
    from stable_baselines3.common.save_util import load_from_zip_file

    contents = []
    for model in (ours(name), theirs(name)):
        file = io.BytesIO()
        model.save(file)
        file.seek(0)
        data, parameters, _ = load_from_zip_file(file, device="cpu")
        contents.append((set(data), {key: list(value) for key, value in parameters.items()}))
    assert contents[0] == contents[1]


def test_algorithm_classes_are_imported_on_first_use() -> None:
    program = (
        "import sys, rlher.algos; assert 'torch' not in sys.modules; from rlher.algos import SAC; print(SAC.__mro__)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "stable_baselines3.sac.sac.SAC" in done.stdout
