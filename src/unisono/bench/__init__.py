"""Our collectives against those of others, on the same sizes in the same run."""
