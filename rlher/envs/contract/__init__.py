"""The goal-environment contract: checking an environment against it and probing what the config leaves open."""
