"""The goal-environment contract: checking an environment against it, and probing properties the config leaves open."""
