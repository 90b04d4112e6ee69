"""`rspo plan`: what is left to run, its hours, the claims of a budget, and memory of a GPU."""
