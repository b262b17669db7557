"""Model files: Stable-Baselines3 zips that are read without unpickling anything.

A zip of SB3 holds the weights and a pickle of the model's attributes. Unpickling a file from someone else can run any
code. So rlher rebuilds the model from the run's config, and reads only tensors from the zip.
"""

import io
import json
import pickle
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch as th
from stable_baselines3.common.save_util import recursive_getattr

from rlher.algos.off_policy_algorithm import OffPolicyAlgorithm
from rlher.core.errors import RunError, UserError, as_read_error
from rlher.core.reading import open_zip, read_tensors

VARIABLES = "pytorch_variables.pth"
POLICY = "policy.pth"
ACTING_PREFIXES = ("actor.", "q_net.", "quantile_net.")
"""Prefixes of the policy's weights that choose actions; the others are needed for training only."""

NORMALIZER = "features_extractor.normalizer."
"""Part of the names of the statistics by which a policy normalises observations."""

FIXED_ENT_COEF = "ent_coef_tensor"
"""A fixed entropy coefficient. It is not loaded, because the config sets it."""


def to_bytes(model: OffPolicyAlgorithm) -> bytes:
    """Return the content of a model file that SB3's own ``load`` can read as well.

    The content is made in memory, because torch hides the OSError of a full disk.

    :raises RunError: training diverged: a weight or statistic of the policy is not finite.
    """
    if not _has_finite_weights(model):
        raise RunError(
            f"training diverged: weights are not finite after {model.num_timesteps:,} steps, so only the best model is "
            "kept; use a smaller algo.learning_rate or set algo.target_q_bounds."
        )
    content = io.BytesIO()
    model.save(content)
    return content.getvalue()


@contextmanager
def _open(file: Path | io.BytesIO) -> Iterator[zipfile.ZipFile]:
    """Open a model file, and turn the errors of reading it into UserErrors that name it."""
    path = file if isinstance(file, Path) else Path("the model in memory")
    if isinstance(file, Path) and not file.exists():
        raise UserError(f"there is no model file {path}.")
    with as_read_error(path, MemoryError), open_zip(file) as archive:
        archive.filename = str(path)  # for messages
        try:
            yield archive
        except pickle.UnpicklingError as error:  # its message advises to load the file without this check
            raise ValueError("it holds something other than weights") from error


@contextmanager
def _as_misfit_error(archive: zipfile.ZipFile) -> Iterator[None]:
    """Turn errors of torch and Stable-Baselines3 into UserErrors if the weights belong to another model."""
    try:
        yield
    except (RuntimeError, ValueError, AttributeError) as error:
        reason = str(error).splitlines()[-1].strip()[:160].rstrip(".")
        if NORMALIZER in str(error) and "size mismatch" not in str(error):
            reason = "only one of them was made with normalize.enabled=true"
        raise UserError(f"{archive.filename} does not fit the config: {reason}.") from error


def load_policy_weights(file: Path | io.BytesIO, model: OffPolicyAlgorithm) -> None:
    """Load a file's policy weights into a freshly built model.

    :raises UserError: the file is missing, damaged, or belongs to another model.
    """
    with _open(file) as archive:
        tensors = read_tensors(archive.read(POLICY), model.device)
        with _as_misfit_error(archive):
            missing, unexpected = model.policy.load_state_dict(tensors, strict=False)
            if differing := [*unexpected, *(name for name in missing if name.startswith(ACTING_PREFIXES))]:
                raise ValueError(f"its networks differ in {differing[0]}")
        if not _has_finite_weights(model):
            raise ValueError("its weights are not finite")


def _has_finite_weights(model: OffPolicyAlgorithm) -> bool:
    """Return whether every weight and statistic of the model's policy is finite."""
    return all(bool(th.isfinite(weights).all()) for weights in model.policy.state_dict().values())


def load_parameters(path: Path, model: OffPolicyAlgorithm) -> None:
    """Load weights, optimizers and entropy coefficient into a freshly built model.

    :raises UserError: the file is missing, damaged, or belongs to another model.
    """
    with _open(path) as archive:
        names = [name for name in archive.namelist() if name.endswith(".pth") and name != VARIABLES]
        parameters: dict = {name[: -len(".pth")]: read_tensors(archive.read(name), model.device) for name in names}
        if "ent_coef_optimizer" in parameters and getattr(model, "ent_coef_optimizer", None) is None:
            raise UserError(f"{path} was trained with a learnt entropy coefficient; use algo.ent_coef=auto here.")
        variables = read_tensors(archive.read(VARIABLES), model.device) if VARIABLES in archive.namelist() else {}
        with _as_misfit_error(archive):
            model.set_parameters(parameters, exact_match=True, device=model.device)
            for name in variables.keys() - {FIXED_ENT_COEF}:
                recursive_getattr(model, name).data.copy_(variables[name])


def read_timesteps(path: Path) -> int:
    """Return the environment steps after which a model was written.

    :raises UserError: the file is missing or damaged.
    """
    with _open(path) as archive:
        return int(json.loads(archive.read("data"))["num_timesteps"])
