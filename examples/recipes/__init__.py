"""Recipes: short programs that name the packages they need; docs/recipes.md explains each."""
