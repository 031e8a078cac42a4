"""The command line: what a person types, and how answers are shown."""
