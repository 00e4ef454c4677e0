"""Figures on labelled data that lies outside of the repository: how sure a text makes us, and whether that is calibrated."""
