"""The process boundary: both ends of the pipe, and the life of one case in the child."""
