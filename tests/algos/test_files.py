"""Models saved by our classes load in SB3's and the reverse, and continue training identically."""

import io
import json
import zipfile

import pytest
import torch as th

from rlher.algos import ALGORITHMS
from tests.algos.test_faithful import require_same
from tests.support.models import THEIRS, ours, theirs, train, weights


@pytest.mark.parametrize("name", THEIRS)
@pytest.mark.parametrize("from_ours", [True, False])
def test_models_load_in_either_class_and_continue_identically(name, from_ours) -> None:
    saved, reader = (ours(name), THEIRS[name]) if from_ours else (theirs(name), ALGORITHMS[name].load())
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
def test_a_saved_model_has_the_attributes_of_the_one_of_sb3(name) -> None:
    model = ours(name)
    train(model, 1)
    file = io.BytesIO()
    model.save(file)
    assert json.loads(zipfile.ZipFile(file).read("data")).keys() <= vars(theirs(name)).keys()
