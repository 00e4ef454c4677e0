{{/* Who may reach the pods of a component. Needs root, component, rules: each {ports (none: all), from (empty: anybody in the cluster)}. */}}
{{- define "firstfault.policy" -}}
{{- if .root.Values.networkPolicy.enabled }}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ printf "%s-%s" (include "firstfault.name" .root) .component }}
  labels: {{ include "firstfault.labels" . | nindent 4 }}
spec:
  podSelector:
    matchLabels: {{ include "firstfault.selector" . | nindent 6 }}
  policyTypes: [Ingress]
  ingress:
    {{- range .rules }}
    {{- if not (or .ports .from) }}{{ fail "a rule of a policy would open every port to everybody" }}{{ end }}
    {{- $rule := dict }}
    {{- range .ports }}{{ $_ := set $rule "ports" (append ($rule.ports | default list) (dict "port" (int .))) }}{{ end }}
    {{- with .from }}{{ $_ := set $rule "from" . }}{{ end }}
    {{- list $rule | toYaml | nindent 4 }}
    {{- end }}
{{- end }}
{{- end }}

{{/* The pods of a component as a peer, in JSON. Needs root, component. */}}
{{- define "firstfault.peer" -}}
{{- dict "podSelector" (dict "matchLabels" (include "firstfault.selector" . | fromYaml)) | toJson }}
{{- end }}
