"""Model files: Stable-Baselines3 zips that carry their normaliser, read without unpickling anything.

A zip of SB3 holds a pickle of the model's attributes beside its weights, and unpickling a file somebody sent you runs
what they wrote in it. The model is rebuilt from the run's config instead, and only tensors are read from the zip.
"""

import io
import json
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch as th
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.save_util import recursive_getattr

from rlher.core.arrays import stored_arrays
from rlher.core.errors import UserError
from rlher.core.files import atomic_write
from rlher.envs.normalize import GoalNormalize
from rlher.runs import space_signature

NORMALIZER = "normalizer.npz"
VARIABLES = "pytorch_variables.pth"
SQUEEZED = 100  # times smaller than its content is a file that was made to fill the memory of who reads it
SETTING = "ent_coef_tensor"  # a fixed entropy coefficient: chosen, not learnt


def save(path: Path, model: OffPolicyAlgorithm, normalizer: GoalNormalize | None) -> None:
    """Write the model where plain SB3 can load it too, its normaliser's statistics in the same file."""
    whole = content_of(model, normalizer)  # first, because torch, writing to a full disk, does not say so in an OSError
    with atomic_write(path) as temporary:
        temporary.write_bytes(whole)


def content_of(model: OffPolicyAlgorithm, normalizer: GoalNormalize | None) -> bytes:
    """Return what :func:`save` writes."""
    content = io.BytesIO()
    model.save(content)
    with zipfile.ZipFile(content, "a") as archive:
        space_signature.write(archive, model)
        if normalizer is not None:
            arrays = io.BytesIO()
            np.savez(arrays, **normalizer.state())  # type: ignore[arg-type]
            archive.writestr(NORMALIZER, arrays.getvalue())
    return content.getvalue()


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Say in a sentence why a model file could not be read."""
    try:
        yield
    except UserError:
        raise
    except FileNotFoundError:
        raise UserError(f"there is no model file {path}.") from None
    except KeyError as error:
        raise UserError(f"{path} lacks {error}: it is damaged, or was not written by rlher.") from error
    except (zipfile.BadZipFile, EOFError, OSError) as error:
        raise UserError(f"{path} is damaged: {error}.") from error
    except (RuntimeError, ValueError, AttributeError, TypeError) as error:
        raise UserError(f"{path} does not fit the run's config: {str(error).splitlines()[0]}") from error
    except Exception as error:  # torch.load refuses anything that is no tensor with an UnpicklingError of pickle's
        raise UserError(f"{path} holds something other than weights ({type(error).__name__}).") from error


def require_spaces(path: Path, env: gym.Env) -> None:
    """Hold an environment against the one that a model was trained in, before another model is built for it.

    :raises UserError: its spaces have changed, or the file is missing or damaged.
    """
    with _told(path), _opened(path) as archive:
        space_signature.require_same(archive, env.observation_space, env.action_space)


def load_policy(path: Path, model: OffPolicyAlgorithm, normalizer: GoalNormalize | None) -> None:
    """Put a file's policy weights and statistics into a freshly built model.

    :raises UserError: the file is missing, damaged, or belongs to another model.
    """
    with _told(path), _opened(path) as archive:
        space_signature.require_fit(archive, model)
        model.policy.load_state_dict(_tensors(archive, "policy.pth", model.device))
        _load_normalizer(archive, normalizer)


def load_all(path: Path, model: OffPolicyAlgorithm, normalizer: GoalNormalize | None) -> None:
    """Put everything that learns into a model: weights, optimisers, entropy coefficient, statistics.

    :raises UserError: the file is missing, damaged, or belongs to another model.
    """
    with _told(path), _opened(path) as archive:
        space_signature.require_fit(archive, model)
        names = [name for name in archive.namelist() if name.endswith(".pth") and name != VARIABLES]
        parameters: dict = {name[: -len(".pth")]: _tensors(archive, name, model.device) for name in names}
        model.set_parameters(parameters, exact_match=True, device=model.device)
        if VARIABLES in archive.namelist():
            for name, value in (_tensors(archive, VARIABLES, model.device) or {}).items():
                if name != SETTING:
                    recursive_getattr(model, name).data = value.data
        _load_normalizer(archive, normalizer)


def _opened(file: Path | io.BytesIO) -> zipfile.ZipFile:
    """Open an archive that is not much smaller than it says its members are."""
    if isinstance(file, Path) and file.exists() and not file.is_file():
        raise zipfile.BadZipFile("it is no file")
    archive = zipfile.ZipFile(file)
    size = file.stat().st_size if isinstance(file, Path) else file.getbuffer().nbytes
    if sum(member.file_size for member in archive.infolist()) > SQUEEZED * size:
        archive.close()
        raise zipfile.BadZipFile("it says that it holds many times its own size")
    return archive


def _tensors(archive: zipfile.ZipFile, name: str, device: th.device) -> dict[str, th.Tensor]:
    content = io.BytesIO(archive.read(name))
    return load_tensors(content, device)


def load_tensors(file: Path | io.BytesIO, device: th.device) -> dict[str, Any]:
    """Read a file of tensors that torch wrote, without unpickling anything else.

    :raises zipfile.BadZipFile: it is none, or was made to fill the memory of who reads it.
    :raises pickle.UnpicklingError: it holds something else.
    """
    _opened(file).close()
    if isinstance(file, io.BytesIO):
        file.seek(0)
    found: dict[str, Any] = th.load(file, map_location=device, weights_only=True)
    return found


def _load_normalizer(archive: zipfile.ZipFile, normalizer: GoalNormalize | None) -> None:
    if (NORMALIZER in archive.namelist()) != (normalizer is not None):
        how = "with" if normalizer is None else "without"
        raise UserError(f"{archive.filename} was trained {how} normalize.enabled, and must be used so.")
    if normalizer is not None:
        content = io.BytesIO(archive.read(NORMALIZER))
        _opened(content).close()
        with stored_arrays(content) as arrays:
            normalizer.load_state(dict(arrays))


def steps_of(path: Path) -> int:
    """Return the environment steps after which a model was written.

    :raises UserError: the file is missing or damaged.
    """
    with _told(path), zipfile.ZipFile(path) as archive:
        return int(json.loads(archive.read("data"))["num_timesteps"])
