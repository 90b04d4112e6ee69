"""`rspo plan`: what is left to run, its hours, and the claims of a budget."""
