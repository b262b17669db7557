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
def test_a_saved_model_has_nothing_to_unpickle_that_sb3s_has_not(name) -> None:
    model = ours(name, overlap=True)
    train(model, 1)
    file = io.BytesIO()
    model.save(file)
    data = json.loads(zipfile.ZipFile(file).read("data"))
    pickled = {key for key, value in data.items() if isinstance(value, dict) and ":serialized:" in value}
    assert pickled <= vars(theirs(name)).keys()
    assert ALGORITHMS[name].load().load(file, env=model.env, device="cpu").overlap
