"""The sections of the report, a module each: what the template shows, read from files."""
