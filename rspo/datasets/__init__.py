"""Makes tables of problems, which are generated, or read from the hub, a mirror or a user's file."""
