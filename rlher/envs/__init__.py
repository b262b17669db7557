"""Goal environments: registration, wrappers, vectorisation and the contract check.

Importing this package imports neither gymnasium nor torch, so that `rlher list` answers at once; only
:mod:`rlher.envs.vec` and modules that build on it need torch.
"""
