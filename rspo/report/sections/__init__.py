"""The sections of the report, a module each: what the template shows, read from files.

provenance.py has the sections Cost and Provenance; the section Config needs no module.
"""
