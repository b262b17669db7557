"""Declaration and validation of config keys, and the lists of keys derived from their declarations."""

from dataclasses import dataclass, field

import pytest

from rlher.analysis.grouping import POOLED_KEYS
from rlher.analysis.loading import LABEL_KEYS
from rlher.config.environment import EnvConfig
from rlher.config.key import keys_of, param, param_values, setting, validate
from rlher.config.training import RunConfig, values_kept_on_resume
from rlher.core.errors import UserError


def test_grouping_ignores_seed_length_machine_and_output() -> None:
    ignored = POOLED_KEYS - {*LABEL_KEYS}
    assert {"seed", "total_timesteps", "recipe", "logs", "device", "threads", "vec_env", "engine.compile"} <= ignored
    assert {"env.step_timeout", "env.max_restarts", "logger", "record", "progress", "tensorboard", "json"} <= ignored
    assert {name for name in keys_of(RunConfig) if name.startswith("eval.")} <= ignored
    assert not {name for name in ignored if name.startswith(("algo.", "her.", "normalize."))}
    assert not {"env.kwargs", "n_envs", "init_from", "engine.precision"} & ignored
    assert "checkpoint.freq" in ignored, "it truncates an episode now and then, which makes no other agent"


def test_an_experiment_leaves_out_settings() -> None:
    fixed = values_kept_on_resume(RunConfig(env=EnvConfig(kwargs={1: (2, 3)})))
    assert fixed["env.kwargs"] == {"1": [2, 3]}
    found = param_values(RunConfig(env=EnvConfig(kwargs={"a.b": {"c": 1}})))
    assert found["env.kwargs"] == {"a.b": {"c": 1}}
    assert {"seed", "algo.gamma", "checkpoint.freq", "eval.episodes", "engine.precision"} <= set(found)
    machine, output = {"device", "threads", "vec_env", "engine.compile"}, {"logs", "json", "tensorboard", "progress"}
    assert not {"recipe", *machine, *output} & set(found)


@dataclass
class Inner:
    share: float = param(0.5, "share", low=0, high=1)


@dataclass
class Outer:
    inner: Inner = field(default_factory=Inner)
    sizes: list[int] = param([1], "sizes", low=1)
    mode: str = param("on", "mode", choices=("on", "off"))
    count: int | None = setting(None, "count", low=2)


@pytest.mark.parametrize(
    ("config", "named"),
    [
        (Outer(inner=Inner(1.5)), "inner.share=1.5"),
        (Outer(inner=Inner(float("nan"))), "inner.share=nan"),
        (Outer(sizes=[1, 0]), "sizes=0"),
        (Outer(mode="of"), "mode='of'"),
        (Outer(count=1), "count=1"),
    ],
)
def test_value_out_of_range_is_refused(config: Outer, named: str) -> None:
    validate(Outer(Inner(1), [3, 4], "off", 2))
    with pytest.raises(UserError) as error:
        validate(config)
    assert named in str(error.value)
