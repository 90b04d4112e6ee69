"""`rspo plan`: what is left to run, how long it takes, and which claims a budget answers."""
