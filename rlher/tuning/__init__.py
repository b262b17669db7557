"""Tuning: search spaces, studies that many workers share, and the verdict over what they found."""

import warnings

from optuna.exceptions import ExperimentalWarning

# Heartbeats and retries, which all of this stands on, are marked experimental since 2021; once is enough to know it.
warnings.filterwarnings("ignore", category=ExperimentalWarning)
