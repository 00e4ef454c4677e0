{{/* Who may reach the pods of a component, and what they may reach. Needs root, component, rules: each {ports (none: all), from (empty: anybody
in the cluster)}; egress: rules of a NetworkPolicy, used where calls are limited at all, besides the names of servers (DNS). */}}
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
  policyTypes: [Ingress{{ if .root.Values.networkPolicy.egress.enabled }}, Egress{{ end }}]
  ingress:
    {{- range .rules }}
    {{- if not (or .ports .from) }}{{ fail "a rule of a policy would open every port to everybody" }}{{ end }}
    {{- $rule := dict }}
    {{- range .ports }}{{ $_ := set $rule "ports" (append ($rule.ports | default list) (dict "port" (int .))) }}{{ end }}
    {{- with .from }}{{ $_ := set $rule "from" . }}{{ end }}
    {{- list $rule | toYaml | nindent 4 }}
    {{- end }}
  {{- if .root.Values.networkPolicy.egress.enabled }}
  egress:
    - ports: [{port: 53, protocol: UDP}, {port: 53, protocol: TCP}]
    {{- toYaml .egress | nindent 4 }}
  {{- end }}
{{- end }}
{{- end }}

{{/* The pods of a component as a peer, in JSON. Needs root, component. */}}
{{- define "firstfault.peer" -}}
{{- dict "podSelector" (dict "matchLabels" (include "firstfault.selector" . | fromYaml)) | toJson }}
{{- end }}

{{/* Those who may come, as JSON {"peers": …}, with pods of ours added where it is said who may. Needs root, peers, components. */}}
{{- define "firstfault.with" -}}
{{- $peers := .peers }}
{{- if $peers }}
{{- range .components }}{{ $peers = append $peers (include "firstfault.peer" (dict "root" $.root "component" .) | fromJson) }}{{ end }}
{{- end }}
{{- dict "peers" $peers | toJson }}
{{- end }}
