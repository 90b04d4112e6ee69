"""Makes tables of problems: generated ones, and those of the hub, a mirror or a user's file."""
