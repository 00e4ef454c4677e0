"""The firstfault service: receives telemetry of training jobs and says which rank failed first."""
