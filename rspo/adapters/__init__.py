"""The objectives in other trainers. Each module needs its trainer, which rspo does not install."""
