"""Training data of evolutions: change histories, imputed gaps, times of cycles."""
