"""The examples of docs/guide/extend.md train, resume bit for bit, and are not run from elsewhere without trust."""

import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from same_run import differences

import rlher as api
from rlher.cli.command_line import parse
from rlher.config.compose import compose
from rlher.config.training import RunConfig
from rlher.config.trust import UntrustedCode
from rlher.core.errors import UserError
from rlher.run import lookup
from rlher.training.preparation import prepare
from tests.conftest import TINY
from tests.support.documents import blocks, commands

COMMANDS = [words for words in commands("docs/guide/extend.md") if words[0] == "train"]
OWN_ALGORITHMS = [words for words in COMMANDS if "algo=sac" not in words]
OTHERS = [word for words in COMMANDS if "algo=sac" in words for word in words if not word.startswith("her=my_code:")]
TOGETHER = [*dict.fromkeys(OTHERS)]
"""All examples that fit together, in one command."""
SLOW = [pytest.param(words, marks=pytest.mark.slow) for words in (TOGETHER, *OWN_ALGORITHMS)]
SHORT = (*TINY, "recipe=null", "threads=1", "total_timesteps=110", "checkpoint.freq=60")
SHORT += ("eval.freq=60", "eval.episodes=1", "eval.final_episodes=1")
SMALL = {"learning_starts": 40, "batch_size": 16, "net_arch": [16], "train_freq": 5, "gradient_steps": 1}
KEYS: dict[str, dict[str, Any]] = {
    "her.goal_selection_strategy": {"her": {"goal_selection_strategy": "evil:f"}},
    "her.goal_mix": {"her": {"goal_selection_strategy": "mix", "goal_mix": {"future": 1.0, "evil:f": 1.0}}},
    "her.priority": {"her": {"priority": "evil:F"}},
    "algo.policy_kwargs": {"algo": {"policy_kwargs": {"features_extractor_class": "evil:F"}}},
    "algo.activation": {"algo": {"activation": "evil:F"}},
    "algo.learning_rate_schedule": {"algo": {"learning_rate_schedule": "evil:f"}},
    "algo.target_policy_noise_schedule": {"algo": {"target_policy_noise_schedule": "evil:f"}},
    "algo.model_class": {"algo": {"model_class": "evil:F"}},
    "logger": {"logger": "evil:F"},
}


@pytest.fixture
def workspace(rlher, tmp_path: Path) -> Path:
    Path("my_code.py").write_text("\n\n".join(blocks("docs/guide/extend.md", "python")))
    sys.modules.pop("my_code", None)
    return tmp_path


def own_module(source: str) -> str:
    """Write a module under a name of its own, since a module is imported once; return the name."""
    name = f"own_{abs(hash(source))}"
    Path(f"{name}.py").write_text(source)
    return name


@pytest.mark.parametrize("words", [COMMANDS[0], *SLOW])
def test_an_example_resumes_bit_for_bit(rlher, workspace: Path, at_step, words: list[str]) -> None:
    shorter = [word.replace("after: 5000", "after: 90") for word in words]
    own = [word.partition(":")[2] for word in words if word.startswith("algo=my_code:")]
    folder = Path("logs", *(own or ["sac"]), "FetchReach-v4_1")
    at_step(80, lambda: shutil.copytree(folder, Path("copy") / folder, copy_function=os.link))
    assert rlher(*shorter, *SHORT).code == 0
    assert "my_code:" in (folder / "config.yaml").read_text()
    copy = Path("copy") / folder
    assert rlher("train", "--resume", str(copy)).code == 2, "it is not where it was written"
    assert rlher("train", "--resume", str(copy), "--trust-code").code == 0
    assert [each for each in differences(folder, copy) if "numbers.jsonl" not in each] == []


@pytest.mark.slow
def test_the_examples_do_what_they_say(rlher, workspace: Path) -> None:
    run = api.train("my_code:LateSAC", "FetchReach-v4", **_tiny(algo=SMALL, her={"priority": "my_code:Recent"}))
    import my_code

    assert (run.config.algo.name, run.config.algo.model_class) == ("sac", "my_code:LateSAC")
    assert isinstance(run.model, my_code.LateSAC)
    api.train("sac", "FetchReach-v4", **_tiny(algo=SMALL))
    assert sorted(api.compare(by="algo")["group"]) == ["LateSAC", "sac"]
    network = {"features_extractor_class": my_code.Relative, "optimizer_class": "torch.optim:AdamW"}
    given = {"algo": SMALL | {"policy_kwargs": network, "activation": "torch.nn:Mish"}}
    model = api.train("sac", "FetchReach-v4", **_tiny(logger=my_code.Lines, **given)).model
    assert type(model.actor.optimizer).__name__ == "AdamW"
    assert "Mish" in str(model.actor)
    assert "Relative" in str(model.actor)
    assert '"step"' in Path("logs/sac/FetchReach-v4_2/numbers.jsonl").read_text()


def _tiny(**keys: Any) -> dict[str, Any]:
    once = {"episodes": 1, "final_episodes": 1, "freq": 80}
    return {"recipe": None, "threads": 1, "total_timesteps": 80, "eval": once} | keys


def test_the_controller_succeeds(rlher, workspace: Path) -> None:
    (words,) = [each for each in commands("docs/guide/extend.md") if each[0] == "collect"]
    done = rlher(*words)
    assert done.code == 0, done.err
    assert "10 of 10 played ended in success" in done.out


def test_a_sweep_takes_algorithms_and_classes_that_extend_one(workspace: Path) -> None:
    line = parse("train", ["-m", "algo=td3,my_code:SmoothSAC"])
    configs = [compose(RunConfig, overrides) for overrides in line.combinations()]
    found = [(config.algo.name, config.algo.model_class) for config in configs]
    assert found == [("td3", None), ("sac", "my_code:SmoothSAC")]
    with pytest.raises(UserError):
        compose(RunConfig, {"algo": "my_code:Relative"})


def test_own_losses_are_used_with_an_own_features_extractor(workspace: Path) -> None:
    algo = SMALL | {"policy_kwargs": {"features_extractor_class": "my_code:Relative"}}
    run = api.train("my_code:SmoothSAC", "FetchReach-v4", **_tiny(algo=algo, total_timesteps=220))
    assert pd.read_csv(Path(run.folder, "progress.csv"))["train/action_size"].max() > 0


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ("request.achieved_goals(request.episode_last_ids + 1000)", "IndexError"),
        ("request.achieved_goals(request.episode_last_ids / 2)", "TypeError"),
        ("request.episode_last_ids", "int64 of shape (12,)"),
        ("request.achieved_goals(request.ids) / [0, 1, 1]", "float64 of shape (12, 3)"),
        ("1 / 0", "raised ZeroDivisionError: division by zero (own_"),
    ],
)
def test_a_strategy_must_return_a_goal_for_each_transition(rlher, workspace: Path, body: str, named: str) -> None:
    module = own_module(f"def wrong(request):\n    return {body}\n")
    done = rlher("train", "algo=sac", "env=FetchReach-v4", f"her={module}:wrong", *SHORT)
    assert (done.code, "Traceback" in done.err) == (1, False)
    assert "the goal selection strategy wrong" in done.err
    assert named in done.err


def test_an_update_may_return_numbers_and_tensors_with_one_element(workspace: Path) -> None:
    returned = "{'a': 1, 'b': batch.rewards[:1] * 0 + 2, 'c': batch.rewards.numpy().max() * 0 + 3}, None"
    method = f"    def update(self, batch, gradient_step):\n        return {returned}\n"
    module = own_module(f"from rlher.algos.td3 import DDPG\n\nclass Mine(DDPG):\n{method}")
    run = api.train(f"{module}:Mine", "FetchReach-v4", **_tiny(algo=SMALL, total_timesteps=220))
    logged = pd.read_csv(Path(run.folder, "progress.csv"))[["train/a", "train/b", "train/c"]].dropna()
    assert set(map(tuple, logged.to_numpy())) == {(1.0, 2.0, 3.0)}


def test_an_own_extractor_is_used_for_predictions(workspace: Path) -> None:
    source = "class Own(CombinedExtractor):\n    def forward(self, obs):\n        return 2 * super().forward(obs)\n"
    name = own_module(f"from stable_baselines3.common.torch_layers import CombinedExtractor\n\n{source}") + ":Own"
    overrides = {"algo": "sac", "env": "FetchReach-v4", "algo.policy_kwargs.features_extractor_class": name}
    with prepare(compose(RunConfig, overrides)) as setup:
        observation = setup.model.env.reset()
        expected = setup.model.policy.predict(observation, deterministic=True)[0]
        assert setup.model.predict(observation, deterministic=True)[0] == pytest.approx(expected, abs=1e-6)


def test_a_strategy_takes_arguments_alone_and_in_a_mix(rlher, workspace: Path) -> None:
    her = {"goal_mix": {"future": 3, "my_code:within": 1}, "goal_selection_strategy": "mix"}
    for wrong, named in (
        ({}, "steps"),
        ({"goal_selection_kwargs": {"stepz": 3}}, r"goal_mix: .*stepz"),
        ({"goal_mix": {"my_code:withn": 1}}, r"goal_mix: my_code has no withn .*'within'"),
    ):
        with pytest.raises(UserError, match=named):
            api.train("sac", "FetchReach-v4", **_tiny(her=her | wrong))
    assert not Path("logs").exists()
    run = api.train("sac", "FetchReach-v4", **_tiny(algo=SMALL, her=her | {"goal_selection_kwargs": {"steps": 3}}))
    assert run.config.her.goal_mix == her["goal_mix"]
    with pytest.raises(UserError, match="stepz"):
        api.train("sac", "FetchReach-v4", **_tiny(her="my_code:within", **{"her.goal_selection_kwargs.stepz": 3}))


@pytest.mark.parametrize("key", KEYS)
def test_code_in_a_file_of_somebody_else_is_refused(rlher, workspace: Path, key: str) -> None:
    Path("evil.py").write_text("open('ran', 'w')\n")
    Path("recipe.yaml").write_text(yaml.safe_dump(KEYS[key]))
    tiny = ("train", "algo=sac", "env=FetchReach-v4", *TINY, "recipe=recipe.yaml", "total_timesteps=100")
    assert rlher(*tiny).code == 2
    shutil.copytree(Path(str(lookup.pretrained_agent_folder("td3-FetchPush-v4"))), "run")
    config = yaml.safe_load(Path("run/config.yaml").read_text())
    for section, value in KEYS[key].items():
        config[section] = config[section] | value if isinstance(value, dict) else value
    Path("run/config.yaml").write_text(yaml.safe_dump(config))
    with pytest.raises(UntrustedCode) as caught:
        lookup.open_run("run", "logs")
    assert caught.value.key == key
    if not key.startswith(("env", "logger", "algo.policy_kwargs", "algo.model_class")):
        Path("space.yaml").write_text(yaml.safe_dump({key: {"choices": [re.findall("evil:[fF]", str(KEYS[key]))[0]]}}))
        assert rlher("optimize", "algo=sac", "env=FetchReach-v4", "--n-trials", "1", "space=space.yaml").code == 2
    assert not Path("ran").exists()


@pytest.mark.parametrize(
    "word",
    [
        "her.goal_selection_strategy=my_code:sooon",
        "her.goal_selection_strategy=futur",
        "her.priority=my_code:soon",
        "algo.activation=my_code:soon",
        "algo.learning_rate_schedule=my_code:np",
        "algo.policy_kwargs.features_extractor_class=my_code:Nothing",
        "algo=my_code:Recent",
        "algo=no_such_module:X",
        "algo.model_class=stable_baselines3:SAC",
        "logger=my_code:Linez",
    ],
)
def test_a_wrong_name_is_a_user_error_and_writes_nothing(workspace: Path, word: str) -> None:
    key, _, value = word.partition("=")
    with pytest.raises(UserError, match=key.split(".")[-1]):
        api.train(None if key == "algo" else "sac", "FetchReach-v4", **_tiny(**{key: value}))
    assert not Path("logs").exists()


def test_a_function_of_a_notebook_cannot_be_recorded(workspace: Path) -> None:
    def last(request):
        return request.episode_last_ids

    last.__module__, last.__qualname__ = "__main__", "last"
    for function in (last, lambda request: request.episode_last_ids):
        with pytest.raises(UserError, match="not in the script or notebook that runs"):
            api.train("sac", "FetchReach-v4", her=function)


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ("class A:\n    def __init__(self, run):\n        1 / 0", r"division by zero \(own_\d+\.py, line 3\)"),
        ("def A(): pass", "takes 0 positional arguments but 1 was given"),
        ("def A(run): pass", "returned None, which lacks log and finish"),
    ],
)
def test_a_logger_that_cannot_be_built_is_a_user_error(workspace: Path, source: str, named: str) -> None:
    name = own_module(source) + ":A"
    with pytest.raises(UserError, match=f"logger: {name} .*{named}"):
        api.train("sac", "FetchReach-v4", **_tiny(logger=name))
    assert not list(Path("logs").glob("*/*"))


def test_a_callback_without_a_result_is_told_to_return_true(rlher, workspace: Path) -> None:
    source = "class Forgets(BaseCallback):\n    def _on_step(self):\n        pass\n"
    module = own_module(f"from stable_baselines3.common.callbacks import BaseCallback\n\n{source}")
    done = rlher("train", "algo=sac", "env=FetchReach-v4", *SHORT, f"callbacks=[{module}:Forgets]")
    assert "after 1 of 110 steps; its _on_step must return True" in done.out
