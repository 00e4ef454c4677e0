{{/* Whether monitors are made: where the cluster knows the kind. Needs root. */}}
{{- define "firstfault.monitored" -}}
{{- if and .root.Values.serviceMonitor.enabled (or .root.Values.serviceMonitor.evenIfUnknown (.root.Capabilities.APIVersions.Has "monitoring.coreos.com/v1")) }}yes{{ end }}
{{- end }}

{{/* Labels of a monitor. Needs root, component. */}}
{{- define "firstfault.monitorLabels" -}}
{{ include "firstfault.labels" . }}
{{- with .root.Values.serviceMonitor.labels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Pods without a Service, by their port `metrics`. Needs root, component. */}}
{{- define "firstfault.podMonitor" -}}
{{- if include "firstfault.monitored" . }}
---
apiVersion: monitoring.coreos.com/v1
kind: PodMonitor
metadata:
  name: {{ printf "%s-%s" (include "firstfault.name" .root) .component }}
  labels: {{ include "firstfault.monitorLabels" . | nindent 4 }}
spec:
  selector:
    matchLabels: {{ include "firstfault.selector" . | nindent 6 }}
  podMetricsEndpoints:
    - {port: metrics, path: /metrics, interval: {{ .root.Values.serviceMonitor.interval }}}
{{- end }}
{{- end }}
