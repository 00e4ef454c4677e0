"""The services of the distributed deployment on real servers."""
