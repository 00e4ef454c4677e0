{{- define "firstfault.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "firstfault.image" -}}
{{- if .image.digest }}{{ .image.repository }}@{{ .image.digest }}{{ else }}{{ .image.repository }}:{{ .image.tag | default .root.Chart.AppVersion }}{{ end }}
{{- end }}

{{- define "firstfault.selector" -}}
app.kubernetes.io/name: {{ .root.Chart.Name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "firstfault.labels" -}}
{{ include "firstfault.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "firstfault.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (include "firstfault.name" .) }}
{{- end }}

{{- define "firstfault.flinkServiceAccount" -}}
{{ .Values.flink.serviceAccount.name | default (printf "%s-flink" (include "firstfault.name" .)) }}
{{- end }}

{{- define "firstfault.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "firstfault.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* Settings that are no secrets, as variables. */}}
{{- define "firstfault.settings" -}}
FIRSTFAULT_LOG_FORMAT: json
FIRSTFAULT_LOG_LEVEL: {{ .Values.logLevel | quote }}
FIRSTFAULT_KAFKA_BOOTSTRAP: {{ .Values.kafka.bootstrap | quote }}
FIRSTFAULT_KAFKA_PREFIX: {{ .Values.kafka.prefix | quote }}
FIRSTFAULT_KAFKA_PARTITIONS: {{ .Values.kafka.partitions | quote }}
FIRSTFAULT_KAFKA_REPLICAS: {{ .Values.kafka.replicas | quote }}
FIRSTFAULT_ELASTICSEARCH_URL: {{ .Values.elasticsearch.url | quote }}
FIRSTFAULT_ELASTICSEARCH_PREFIX: {{ .Values.elasticsearch.prefix | quote }}
FIRSTFAULT_ELASTICSEARCH_SHARDS: {{ .Values.elasticsearch.shards | quote }}
FIRSTFAULT_ELASTICSEARCH_REPLICAS: {{ .Values.elasticsearch.replicas | quote }}
FIRSTFAULT_CLICKHOUSE_URL: {{ .Values.clickhouse.url | quote }}
FIRSTFAULT_CLICKHOUSE_USER: {{ .Values.clickhouse.user | quote }}
FIRSTFAULT_CLICKHOUSE_DATABASE: {{ .Values.clickhouse.database | quote }}
FIRSTFAULT_TENANT_BYTES_PER_S: {{ .Values.ingest.tenantBytesPerSecond | int64 | quote }}
{{- with .Values.publicUrl }}
FIRSTFAULT_PUBLIC_URL: {{ . | quote }}
{{- end }}
FIRSTFAULT_API: 0.0.0.0:8080
FIRSTFAULT_OTLP_HTTP: 0.0.0.0:4318
FIRSTFAULT_OTLP_GRPC: 0.0.0.0:4317
FIRSTFAULT_INGEST_HEALTH: 0.0.0.0:8081
FIRSTFAULT_WRITER_HEALTH: 0.0.0.0:8082
FIRSTFAULT_ALERTER_HEALTH: 0.0.0.0:8083
{{- $api := printf "%s-api" (include "firstfault.name" .) }}
FIRSTFAULT_ALLOWED_HOSTS: {{ concat .Values.allowedHosts (list $api (printf "%s.%s" $api .Release.Namespace) (printf "%s.%s.svc" $api .Release.Namespace)) | toJson | quote }}
{{- range $name, $value := .Values.settings }}
{{- if not (hasPrefix "FIRSTFAULT_FLINK_" $name) }}
{{ $name }}: {{ include "firstfault.setting" $value | quote }}
{{- end }}
{{- end }}
{{- end }}

{{/* A value as a variable has it; what is neither text nor number is JSON. */}}
{{- define "firstfault.setting" -}}
{{- if kindIs "string" . }}{{ . }}{{ else }}{{ toJson . }}{{ end }}
{{- end }}

{{/* Variables that name the files of secrets. */}}
{{- define "firstfault.secretFiles" -}}
{{- $keys := .Values.existingSecret.keys }}
{{- range list (list "FIRSTFAULT_CLICKHOUSE_PASSWORD_FILE" $keys.clickhousePassword) (list "FIRSTFAULT_ELASTICSEARCH_API_KEY_FILE" $keys.elasticsearchApiKey) (list "FIRSTFAULT_CURSOR_SECRET_FILE" $keys.cursorSecret) (list "FIRSTFAULT_KAFKA_SECURITY_FILE" $keys.kafkaSecurity) (list "FIRSTFAULT_ELASTICSEARCH_CA_FILE" $keys.elasticsearchCa) }}
{{- if last . }}
- {name: {{ first . }}, value: /etc/firstfault/secrets/{{ last . }}}
{{- end }}
{{- end }}
{{- end }}

{{- define "firstfault.secretVolume" -}}
- name: secrets
  secret:
    secretName: {{ .Values.existingSecret.name }}
    defaultMode: 0440
    items:
      {{- range $name, $key := .Values.existingSecret.keys }}
      {{- if $key }}
      - {key: {{ $key }}, path: {{ $key }}}
      {{- end }}
      {{- end }}
{{- end }}

{{/* Where pods may be placed, and who pulls them. */}}
{{- define "firstfault.placement" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end }}

{{/* One service: Deployment, and what goes with it. Needs root, component, values, health (port), ports. */}}
{{- define "firstfault.service" -}}
{{- $name := printf "%s-%s" (include "firstfault.name" .root) .component }}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $name }}
  labels: {{ include "firstfault.labels" . | nindent 4 }}
spec:
  {{- if not .values.autoscaling.enabled }}
  replicas: {{ .values.replicas }}
  {{- end }}
  revisionHistoryLimit: 5
  selector:
    matchLabels: {{ include "firstfault.selector" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "firstfault.labels" . | nindent 8 }}
        {{- with .root.Values.podLabels }}{{ toYaml . | nindent 8 }}{{ end }}
      annotations:
        # A change of settings replaces the pods.
        checksum/settings: {{ include "firstfault.settings" .root | sha256sum }}
        checksum/secrets: {{ toJson .root.Values.existingSecret | sha256sum }}
        {{- with .root.Values.podAnnotations }}{{ toYaml . | nindent 8 }}{{ end }}
    spec:
      serviceAccountName: {{ include "firstfault.serviceAccount" .root }}
      automountServiceAccountToken: false
      enableServiceLinks: false
      terminationGracePeriodSeconds: {{ .root.Values.terminationGracePeriodSeconds }}
      securityContext: {{ include "firstfault.podSecurity" . | nindent 8 }}
      {{- include "firstfault.placement" .root | nindent 6 }}
      {{- if .root.Values.topologySpread.enabled }}
      topologySpreadConstraints:
        {{- range list .root.Values.topologySpread.topologyKey "kubernetes.io/hostname" }}
        - maxSkew: 1
          topologyKey: {{ . }}
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels: {{ include "firstfault.selector" $ | nindent 14 }}
        {{- end }}
      {{- end }}
      containers:
        - name: {{ .component }}
          image: {{ include "firstfault.image" (dict "root" .root "image" .root.Values.image) }}
          imagePullPolicy: {{ .root.Values.image.pullPolicy }}
          args: [serve, {{ .component }}]
          envFrom:
            - configMapRef: {name: {{ include "firstfault.name" .root }}-settings}
          env: {{ include "firstfault.secretFiles" .root | nindent 12 }}
          ports:
            {{- range $port, $number := .ports }}
            - {name: {{ $port }}, containerPort: {{ $number }}}
            {{- end }}
          {{- if gt (len (omit .ports "health")) 0 }}
          lifecycle:
            # Told to end while it still gets requests: it goes on until everybody knows that it is going, and only then drains.
            preStop: {exec: {command: [sleep, {{ .root.Values.preStopSeconds | quote }}]}}
          {{- end }}
          startupProbe:
            httpGet: {path: /healthz, port: {{ .health }}}
            periodSeconds: 2
            failureThreshold: 60
          livenessProbe:
            httpGet: {path: /healthz, port: {{ .health }}}
            periodSeconds: 10
            timeoutSeconds: 5
            failureThreshold: 6
          readinessProbe:
            httpGet: {path: /readyz, port: {{ .health }}}
            periodSeconds: 5
            timeoutSeconds: 5
          resources: {{ toYaml .values.resources | nindent 12 }}
          securityContext: {{ include "firstfault.containerSecurity" . | nindent 12 }}
          volumeMounts:
            - {name: data, mountPath: /data}
            - {name: tmp, mountPath: /tmp}
            - {name: secrets, mountPath: /etc/firstfault/secrets, readOnly: true}
      volumes:
        - {name: data, emptyDir: {}}
        - {name: tmp, emptyDir: {}}
        {{- include "firstfault.secretVolume" .root | nindent 8 }}
{{- if .values.autoscaling.enabled }}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: {{ $name }}
  labels: {{ include "firstfault.labels" . | nindent 4 }}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: {{ $name }}}
  minReplicas: {{ .values.autoscaling.minReplicas }}
  maxReplicas: {{ .values.autoscaling.maxReplicas }}
  metrics:
    - type: Resource
      resource:
        name: cpu
        target: {type: Utilization, averageUtilization: {{ .values.autoscaling.cpuPercent }}}
  behavior:
    scaleDown: {stabilizationWindowSeconds: 300}
{{- end }}
{{- if .values.podDisruptionBudget.enabled }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ $name }}
  labels: {{ include "firstfault.labels" . | nindent 4 }}
spec:
  maxUnavailable: {{ .values.podDisruptionBudget.maxUnavailable }}
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels: {{ include "firstfault.selector" . | nindent 6 }}
{{- end }}
---
apiVersion: v1
kind: Service
metadata:
  name: {{ $name }}
  labels: {{ include "firstfault.labels" . | nindent 4 }}
  {{- with (.values.service).annotations }}
  annotations: {{ toYaml . | nindent 4 }}
  {{- end }}
spec:
  type: {{ (.values.service).type | default "ClusterIP" }}
  selector: {{ include "firstfault.selector" . | nindent 4 }}
  ports:
    {{- range $port, $number := .ports }}
    - {name: {{ $port }}, port: {{ $number }}, targetPort: {{ $port }}}
    {{- end }}
{{- $metrics := dict "ports" (list .health) "from" .root.Values.networkPolicy.metricsFrom }}
{{- $open := omit .ports "health" }}
{{- $rules := ternary (list (dict "ports" (values $open | sortAlpha) "from" .from) $metrics) (list $metrics) (gt (len $open) 0) }}
{{- $egress := .root.Values.networkPolicy.egress.servers }}
{{- /* The API delivers test messages itself. */}}
{{- if has .component (list "alerter" "api") }}{{ $egress = concat $egress .root.Values.networkPolicy.egress.webhooks }}{{ end }}
{{ include "firstfault.policy" (dict "root" .root "component" .component "rules" $rules "egress" $egress) }}
{{- if include "firstfault.monitored" . }}
---
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata:
  name: {{ $name }}
  labels: {{ include "firstfault.monitorLabels" . | nindent 4 }}
spec:
  selector:
    matchLabels: {{ include "firstfault.selector" . | nindent 6 }}
  endpoints:
    - port: {{ hasKey .ports "health" | ternary "health" "api" }}
      path: /metrics
      interval: {{ .root.Values.serviceMonitor.interval }}
{{- end }}
{{- end }}
