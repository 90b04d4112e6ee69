"""A module for each trainer: `advantages(function, settings)` makes a function of rewards and k."""
