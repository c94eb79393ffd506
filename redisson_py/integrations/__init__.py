"""Integrations with other packages. `opentelemetry` needs the extra `otel`."""
