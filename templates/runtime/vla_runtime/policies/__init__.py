"""LeRobot's policy classes under this project's training loop."""
