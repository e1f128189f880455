"""What evolution learns from: change histories, gaps filled in, the times of cycles."""
