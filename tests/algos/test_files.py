"""Models saved by our classes load in SB3's and the reverse, and continue training identically."""

import io
import json
import zipfile

import pytest
import torch as th
from stable_baselines3.common.policies import BasePolicy

from rlher.algos import ALGORITHMS
from rlher.algos.fast_update import UPDATE_METHODS, FastAlgorithm
from rlher.algos.training_loop import OverlapAlgorithm
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


def test_the_methods_of_the_fast_update_are_those_that_sb3_does_not_call() -> None:
    ours = [base for name in THEIRS for base in ALGORITHMS[name].load().__mro__ if issubclass(base, FastAlgorithm)]
    defined = {method for base in ours for method in vars(base) if callable(getattr(base, method))}
    called_anyway = {method for base in (OverlapAlgorithm, BasePolicy) for method in dir(base)}
    helpers = {"pretrain", "compile_if_enabled"}
    assert {method for method in defined - called_anyway if method[0] != "_"} - helpers == UPDATE_METHODS
