"""Which schedule for which call: by a model of the machine."""
