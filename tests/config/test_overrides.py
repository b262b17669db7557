"""Overrides as values by config key: short forms, their order, numbers, and quoting for Hydra's grammar."""

from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from rlher.cli.command_line import parse
from rlher.cli.commands import COMMANDS
from rlher.config.compose import compose
from rlher.config.overrides import expand_overrides, override_text
from rlher.config.training import RunConfig, TrainConfig
from rlher.core.errors import UserError
from rlher.core.reading import dump_yaml
from rlher.run import run_folder
from rlher.training.resume import resume_config


def test_values_become_what_their_keys_take() -> None:
    words = ["total_timesteps=1e5", "--n-envs", "2.0", "algo.learning_rate=1e-5", "algo.net_arch=256", "--logs=1.0"]
    config = parse("train", [*words, "env.modules=mine", "algo.ent_coef=1.0"]).config()
    assert (config.total_timesteps, config.n_envs, config.algo.learning_rate) == (100_000, 2, 1e-5)
    assert (config.algo.net_arch, config.env.modules) == ([256], ["mine"]), "a list of one"
    assert (config.logs, config.algo.ent_coef) == ("1.0", "1.0"), "unchanged texts"


@pytest.mark.parametrize(
    ("word", "key", "value"),
    [
        ("her=false", "her.n_sampled_goal", 0),
        ("her=sb3", "her.relabel_done", "keep"),
        ("demos=pick/my demos=1", "demos.path", "pick/my demos=1"),
        ("+algo.kwargs.x=1", "algo.kwargs.x", 1),
        ("env.wrappers=[{mine:Slow: {factor: 2}}]", "env.wrappers", [{"mine:Slow": {"factor": 2}}]),
        ("title=Größe: 5 %", "title", "Größe: 5 %"),
        ("storage=${oc.env:X}", "storage", "${oc.env:X}"),
        ("demos=1e3", "demos.path", "1e3"),
        ("env.kwargs.path='~/ü b'", "env.kwargs.path", "~/ü b"),
        ("recipe={}", "recipe", "{}"),
    ],
)
def test_short_forms_stand_for_keys(word: str, key: str, value: object) -> None:
    command = next(name for name in ("train", "optimize", "plot") if key in COMMANDS[name].keys or "kwargs" in key)
    assert expand_overrides(parse(command, [word]).overrides)[key] == value


def test_names_of_groups_come_before_other_values() -> None:
    values = expand_overrides({"her.relabel_done": "auto", "her": "sb3"})
    assert values == {"her.relabel_done": "auto", "her.keep_goal_independent_reward": False}


def test_a_number_in_a_mapping_stays_as_it_was_typed() -> None:
    words = ["env=Some-v9", "env.kwargs.mass=1.0", "env.kwargs.n_bits=4"]
    config = parse("check", words).config()
    assert config.env.id == "Some-v9"
    assert {name: type(value) for name, value in config.env.kwargs.items()} == {"mass": float, "n_bits": int}


def test_a_section_takes_a_mapping_of_its_keys() -> None:
    config = parse("train", ["eval={freq: 3}", "her={n_steps: 2}", "env.relay={distance: 0.5}"]).config()
    assert (config.eval.freq, config.her.n_steps, config.her.n_sampled_goal) == (3, 2, 4)
    assert config.env.relay.distance == 0.5
    line = parse("train", ["-m", "her={n_steps: 2},{n_steps: 3}"])
    sweep = [compose(TrainConfig, overrides) for overrides in line.combinations()]
    assert [config.her.n_steps for config in sweep] == [2, 3]


MIXES = {"future": 1.0, "desired": 1.0}
"""The mix of the recipe of td3 on FetchSlide-v4."""


@pytest.mark.parametrize(
    ("word", "nested", "expected"),
    [
        ("her.goal_mix={}", {"goal_mix": {}}, {}),
        ("her.goal_mix={episode: 2}", {"goal_mix": {"episode": 2}}, {"episode": 2.0}),
        ("her={goal_mix: {episode: 2}}", {"goal_mix": {"episode": 2}}, {"episode": 2.0}),
        ("her.goal_mix.desired=0", {"goal_mix.desired": 0}, {"future": 1.0, "desired": 0.0}),
        ("her.n_steps=1", {"n_steps": 1}, MIXES),
    ],
)
def test_a_mapping_replaces_and_a_key_below_it_merges(
    word: str, nested: dict, expected: dict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = parse("train", ["algo=td3", "env=FetchSlide-v4", word]).config()
    assert config.her.goal_mix == expected
    choices = {"algo": "td3", "env": "FetchSlide-v4"}
    keys = {f"her.{key}": value for key, value in nested.items()}
    assert compose(RunConfig, choices | keys).her.goal_mix == expected, "in Python"
    Path("mine.yaml").write_text(dump_yaml({"her": nested}))
    run = run_folder.create(compose(RunConfig, choices), RunConfig(), "")
    assert resume_config({"run": str(run.folder), **keys}).her.goal_mix == expected, "a resumed run"
    in_file = compose(RunConfig, choices | {"recipe": "mine.yaml"}).her.goal_mix
    assert in_file == ({"desired": 0.0} if "." in min(nested) else nested.get("goal_mix", {})), "over no recipe"


@pytest.mark.parametrize("word", ["algo.name=ddpg", "recipe=mine.yaml"])
def test_only_the_group_chooses_the_algorithm(word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text("algo: {name: ddpg}\n")
    with pytest.raises(UserError, match="algo=ddpg"):
        parse("train", ["algo=sac", "env=FetchReach-v4", word]).config()


def test_trust_may_be_given_as_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text("id: Mine-v0\nwrappers: ['mine:Wrapper']\n")
    overrides = {"algo": "sac", "env": "mine.yaml", "trust_code": "true"}
    assert compose(RunConfig, overrides).env.wrappers == ["mine:Wrapper"]


def test_a_number_of_steps_has_no_plus() -> None:
    with pytest.raises(UserError, match="total_timesteps"):
        compose(RunConfig, {"algo": "sac", "env": "FetchReach-v4", "total_timesteps": "+50"})


@pytest.mark.parametrize(
    "value",
    ["it's", "postgresql://u:p@h/d?x=1", "back\\slash", "end\\", "end\\\n", "a,b", "", "jürgen/лог", "2024_11", "null"],
)
def test_quoted_values_survive_hydras_grammar(value: str) -> None:
    parsed = OverridesParser.create().parse_override(f"key={override_text(value)}")
    assert parsed.value() == value
