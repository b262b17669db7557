"""Storage of studies: a database, by default an SQLite file in the folder of the study.

Optuna records the heartbeats of running trials in it. A command fails and retries the trials whose heartbeat stopped,
which are those of commands that died.
"""

import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import optuna
import tenacity
from optuna.exceptions import DuplicatedStudyError, ExperimentalWarning, StorageInternalError
from optuna.storages import BaseStorage, RDBStorage, RetryHeartbeatStaleTrialCallback, get_storage
from optuna.study import Study
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import SQLAlchemyError

from rlher.config.key import changed_values
from rlher.core.errors import UserError, first_line, pip_install
from rlher.core.reading import require_safe_to_write
from rlher.tuning.study_folder import STUDY_FILE

# Heartbeats and their callback have been marked experimental since 2021. Study.ask, which rlher uses in place of
# Study.optimize, records none; `TrialSource` does. Every command would print both warnings.
warnings.filterwarnings("ignore", category=ExperimentalWarning)
warnings.filterwarnings("ignore", message="Heartbeat of storage is supposed to be used with Study.optimize")

MAX_RETRY = 2
"""How often a trial whose worker or command died is retried."""
CREATE_TIMEOUT = 10  # how long a command waits while another command creates the study
IDENTITY_ATTRIBUTE = "rlher"
BASELINE_ATTRIBUTE = "baseline"
"""User attributes of a study, and of its trial 0."""


def open_storage(storage: str | None, folder: Path, heartbeat: int) -> BaseStorage:
    """Open the database of a URL, or the SQLite file in ``folder``.

    :param storage: as :class:`rlher.config.tuning.OptimizeConfig` validates it.
    :param heartbeat: seconds between heartbeats. A trial is retried after twice this time without a heartbeat.
    :raises UserError: the database is damaged, its driver is missing or the server cannot be reached.
    """
    if storage is None:
        folder.mkdir(parents=True, exist_ok=True)
        require_safe_to_write(folder / STUDY_FILE)
        url = URL.create("sqlite", database=str(folder / STUDY_FILE))
    else:
        url = make_url(storage)
    if url.drivername == "postgresql":
        url = url.set(drivername="postgresql+psycopg")  # the driver that the extra installs
    # SQLite waits this long for writes of other processes, and PostgreSQL for the server.
    limits = {"sqlite": {"timeout": 60}, "postgresql": {"connect_timeout": 10}}
    create = tenacity.retry(  # of two commands that create the tables at once, one fails
        retry=tenacity.retry_if_exception_type(SQLAlchemyError),
        stop=tenacity.stop_after_attempt(3),
        wait=tenacity.wait_random(0.2, 1.0),
        reraise=True,
    )(RDBStorage)
    try:
        database = create(
            url.render_as_string(hide_password=False),
            engine_kwargs={"pool_pre_ping": True, "connect_args": limits.get(url.get_backend_name(), {})},
            heartbeat_interval=heartbeat,
            heartbeat_stale_trial_callback=RetryHeartbeatStaleTrialCallback(MAX_RETRY),
        )
    except ImportError as error:
        reason = f"its driver is missing ({error}); install it, for PostgreSQL by {pip_install('postgresql')}"
        raise UserError(f"cannot use the storage {storage or STUDY_FILE}: {reason}.") from error
    except Exception as error:  # Optuna, SQLAlchemy and drivers raise many kinds
        raise storage_error(storage, error) from error
    return get_storage(database)


def storage_error(storage: str | None, error: BaseException) -> UserError:
    """Return the message about an error of a storage."""
    if isinstance(error, StorageInternalError) and error.__cause__ is not None:
        error = error.__cause__
    reason = first_line(getattr(error, "orig", None) or error)  # of the driver, if there is one
    return UserError(f"cannot use the storage {storage or STUDY_FILE}: {reason}.")


# ------------------------------------------------------------------------------------------ studies


def open_study(
    storage: BaseStorage,
    name: str,
    identity: Mapping[str, Any],
    baseline: Mapping[str, Any] | None = None,
    defaults: Mapping[str, Any] | None = None,
) -> tuple[Study, bool]:
    """Create or join a study.

    :param identity: settings that must be equal for two commands to share a study. The study stores them as JSON.
    :param baseline: parameters of a trial to queue when the study is created.
    :param defaults: defaults of the config keys among the settings.
    :return: the study, and whether this call created it.
    :raises UserError: a study of this name has another identity.
    """
    try:
        study = optuna.create_study(storage=storage, study_name=name, direction="maximize")
    except DuplicatedStudyError:
        study = optuna.load_study(storage=storage, study_name=name)
        # Another command may still be creating the study. It queues the baseline, then stores the identity.
        deadline = time.monotonic() + CREATE_TIMEOUT
        while IDENTITY_ATTRIBUTE not in study.user_attrs and time.monotonic() < deadline:
            time.sleep(0.1)
    stored = study.user_attrs.get(IDENTITY_ATTRIBUTE)
    if stored is None:  # the study is new, or the command that created it died at once
        if baseline is not None:  # before the identity: a command that joins finds the baseline queued
            study.enqueue_trial(dict(baseline), user_attrs={BASELINE_ATTRIBUTE: True}, skip_if_exists=True)
        study.set_user_attr(IDENTITY_ATTRIBUTE, identity)
        return study, True
    if not isinstance(stored, dict):
        raise UserError(f"the study {name!r} was not created by rlher optimize; choose another --study-name.")
    if changes := changed_values(stored, identity, defaults or {}):
        key, (before, value) = next(iter(changes.items()))
        raise UserError(f"the study {name!r} has {key}={before}, this command {value}; choose another --study-name.")
    return study, False
