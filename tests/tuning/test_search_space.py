"""Search spaces: every algorithm's, widening to the baseline, and errors."""

from dataclasses import replace
from pathlib import Path

import optuna
import pytest

from rlher.config.algorithms import ALGORITHMS, DQNConfig
from rlher.config.training import RunConfig
from rlher.core.errors import UserError
from rlher.her.strategies import DEFAULT_MIX
from rlher.tuning.search_space import apply_params, baseline_params, decode, load_space


def dqn() -> RunConfig:
    return RunConfig(algo=DQNConfig(name="dqn"))


@pytest.mark.parametrize(("name", "algo"), [*(("her_wide+algo", algo) for algo in ALGORITHMS), ("her+algo", "dqn")])
def test_every_space_fits_every_algorithm(name: str, algo: str) -> None:
    config = RunConfig(algo=ALGORITHMS[algo].config(name=algo))
    space = load_space(name, config)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    study.enqueue_trial(baseline_params(space, config))
    first, second = study.ask(space), study.ask(space)
    baseline = apply_params(config, first.params)
    assert replace(baseline, her=replace(baseline.her, goal_mix={})) == config
    assert apply_params(config, second.params) != config


def test_space_is_widened_to_the_values_of_the_baseline(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    text = "algo: {gamma: {low: 0.9, high: 0.92}, net_arch: {choices: [[8], [16, 16]]}}\n"
    file.write_text(f"{text}her: {{goal_mix: {{random: {{low: 0.0, high: 0.05}}}}}}\n")
    space = load_space(str(file), replace(dqn(), algo=DQNConfig(name="dqn", gamma=0.97, net_arch=[64])))
    assert (space["algo.gamma"].low, space["algo.gamma"].high) == (0.9, 0.97)
    assert [decode(choice) for choice in space["algo.net_arch"].choices] == [[8], [16, 16], [64]]
    mixes = [apply_params(dqn(), {"her.goal_mix.random": weight}).her.goal_mix for weight in (0.1, 0.0)]
    assert mixes == [DEFAULT_MIX, DEFAULT_MIX | {"random": 0.0}], "the other weights are those of the default"
    assert space["her.goal_mix.random"].high == DEFAULT_MIX["random"]


def test_a_path_without_suffix_names_no_space(tmp_path: Path) -> None:
    space = tmp_path / "mine"
    space.with_suffix(".yaml").write_text("her: {n_sampled_goal: {low: 1, high: 8}}\n")
    assert load_space(f"{space}.yaml", dqn())
    for name in (str(space), f"her+{space}", "../space/her"):
        with pytest.raises(UserError):
            load_space(name, dqn())


INVALID = [  # a space, the key or file of its error, what the message names: the suggested spelling, limit or word
    ("her: {n_sampled_gaol: {low: 1, high: 2}}", "her.n_sampled_gaol", "'her.n_sampled_goal'"),
    ("algo: {ent_coef: {choices: [auto]}}", "algo.ent_coef", "only: [sac, tqc]"),
    ("her: {n_sampled_goal: {low: 1}}", "her.n_sampled_goal", "low and high"),
    ("her: {n_sampled_goal: {low: -3, high: 2}}", "her.n_sampled_goal", "-3"),
    ("her: {goal_selection_strategy: {choices: [future, fianl]}}", "her.goal_selection_strategy", "'final'"),
    ("algo: {gamma: {low: 0.9, high: 1.5}}", "algo.gamma", "1.5"),
    ("algo: {weight_decay: {low: 1e-6, high: 1e-3, log: true}}", "algo.weight_decay", "baseline"),
    ("total_timesteps: {low: 10, high: 20}", "total_timesteps", "tuned"),
    ("[1, 2]", "mine.yaml", "mapping"),
    ("{}", "mine.yaml", "algo=dqn"),
]


@pytest.mark.parametrize(("text", "key", "named"), INVALID, ids=[text for text, _, _ in INVALID])
def test_invalid_space_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, key: str, named: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text(text + "\n")
    with pytest.raises(UserError) as caught:
        load_space("mine.yaml", dqn())
    assert "'mine.yaml'" in str(caught.value)
    assert key in str(caught.value)
    assert named in str(caught.value)
