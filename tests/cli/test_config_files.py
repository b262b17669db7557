"""Config files: precedence of recipes, files of environments, and files that cannot be read."""

from pathlib import Path

import pytest
import yaml

HYPERPARAMS = Path(__file__).parents[2] / "hyperparams"
PAIR = ("algo=dqn", "env=BitFlipping-v0")


def composed(rlher, *words: str) -> dict:
    done = rlher("train", *PAIR, *words, "--cfg", "job")
    assert done.code == 0, done.err
    return yaml.safe_load(done.out)


@pytest.mark.parametrize("text", ["id: [", "id: !!python/object/apply:os.system [exit]", "idd: FetchReach-v4"])
@pytest.mark.parametrize("words", [("env=mine.yaml",), ("-m", "env=FetchReach-v4,mine.yaml")])
def test_unreadable_file_of_an_environment_is_named(rlher, tmp_path: Path, text: str, words: tuple[str, ...]) -> None:
    (tmp_path / "mine.yaml").write_text(text)
    done = rlher("train", *words)
    assert (done.code, "mine.yaml" in done.err, len(done.err.splitlines())) == (2, True, 1)


def test_an_environment_is_chosen_by_its_file(rlher, tmp_path: Path) -> None:
    (tmp_path / "my envs").mkdir()
    (tmp_path / "my envs/mine v2.yaml").write_text("id: Mine-v0\nmax_episode_steps: 7\n")
    config = composed(rlher, "env=my envs/mine v2.yaml", "env.action_repeat=2")
    assert config["env"] == config["env"] | {"id": "Mine-v0", "max_episode_steps": 7, "action_repeat": 2}
    assert config["recipe"] is None


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "my recipe v2.yaml"
    path.write_text(
        "total_timesteps: 1000\n"
        "algo: {net_arch: [8, 8], gamma: 0.9, kwargs: {verbose: 1}}\n"
        "her: {goal_selection_strategy: episode, n_sampled_goal: 2}\n"
    )
    return path


def test_precedence_algorithm_recipe_command_line(rlher) -> None:
    assert composed(rlher)["total_timesteps"] == 10_000
    assert composed(rlher, "recipe=null")["total_timesteps"] == 100_000
    assert composed(rlher, "total_timesteps=7")["total_timesteps"] == 7
    assert composed(rlher, "her=final")["her"]["goal_selection_strategy"] == "final"
    assert composed(rlher, "her=off")["her"]["n_sampled_goal"] == 0


@pytest.mark.parametrize("form", ["recipe={}", "--recipe={}"])
def test_recipe_file_replaces_the_default_recipe(rlher, recipe: Path, form: str) -> None:
    config = composed(rlher, form.format(recipe))
    assert config["recipe"] == str(recipe)
    assert (config["total_timesteps"], config["her"]["n_sampled_goal"]) == (1000, 2)
    assert config["algo"]["net_arch"] == [8, 8]
    assert config["algo"]["exploration_fraction"] == 0.5, "the default recipe says 0.3"


def test_layers_of_the_command_line_replace_those_of_a_recipe(rlher, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("algo: {net_arch: {pi: [8], qf: [16]}}")
    for words, expected in (((), {"pi": [8], "qf": [16]}), (("algo.net_arch=[4]",), [4])):
        assert composed(rlher, "recipe=mine.yaml", "algo=sac", *words)["algo"]["net_arch"] == expected


def test_command_line_overrides_a_recipe_file(rlher, recipe: Path) -> None:
    config = composed(rlher, "algo.gamma=0.8", "her=final", f"recipe={recipe}", "total_timesteps=7")
    assert (config["algo"]["gamma"], config["total_timesteps"]) == (0.8, 7), "wherever the recipe stands"
    assert config["her"] == {**config["her"], "goal_selection_strategy": "final", "n_sampled_goal": 2}
    assert config["algo"]["kwargs"] == {"verbose": 1}


@pytest.mark.parametrize(
    ("text", "named"), [("algo: {gamma: 1.5}", "algo.gamma=1.5"), ("algo: [", ""), ("resume: latest", "resume")]
)
@pytest.mark.parametrize("command", ["train", "optimize"])
def test_invalid_recipe_file_is_refused(rlher, tmp_path: Path, command: str, text: str, named: str) -> None:
    (tmp_path / "mine.yaml").write_text(text)
    done = rlher(command, *PAIR, "recipe=mine.yaml")
    assert done.code == 2
    assert named in done.err


def test_recipe_is_recorded(rlher) -> None:
    assert composed(rlher)["recipe"] == "dqn-BitFlipping-v0"
    assert composed(rlher, "algo=sac", "env.kwargs.continuous=true")["recipe"] is None
