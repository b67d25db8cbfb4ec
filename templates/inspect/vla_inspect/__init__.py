"""What a LeRobot policy is made of, and how its parameters can be divided into modules."""
