"""What everything else stands on: files, locks, processes, seeds. Imports nothing above it."""
