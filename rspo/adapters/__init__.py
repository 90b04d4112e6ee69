"""The objectives in another trainer, TRL, which rspo does not install."""
