"""Places where the SDK listens in on the interpreter: uncaught exceptions, exits, forks, child processes.

Each module installs one kind of hook and gives back a function that removes it. A hook calls what was there before it with the
same arguments, last, whatever happens to the hook itself.
"""
