"""Recipes: short programs, each of which runs against REDISSON_URL and ends by itself.

`python -m examples.recipes.leader_election`; docs/recipes.md explains them.
"""
