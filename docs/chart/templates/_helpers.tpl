{{- define "belljar.name" -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "belljar.labels" -}}
app.kubernetes.io/name: belljar
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "belljar.selector" -}}
app.kubernetes.io/name: belljar
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "belljar.image" -}}
{{- if .Values.image.digest -}}
{{ printf "%s@%s" .Values.image.repository .Values.image.digest }}
{{- else -}}
{{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) }}
{{- end -}}
{{- end -}}

{{- define "belljar.configMap" -}}
{{- .Values.policy.existingConfigMap | default (printf "%s-policy" (include "belljar.name" .)) -}}
{{- end -}}

{{/* The names of all workers, between commas. */}}
{{- define "belljar.workers" -}}
{{- $name := include "belljar.name" . -}}
{{- range $i := until (int .Values.worker.replicas) }}{{ if $i }},{{ end }}{{ $name }}-worker-{{ $i }}{{ end -}}
{{- end -}}

{{/* kubelet cannot connect to a loopback address of a pod, so a program in it asks. */}}
{{- define "belljar.probes" -}}
startupProbe:
  exec: {command: [curl, -fsS, -o, /dev/null, "http://127.0.0.1:9464/livez"]}
  periodSeconds: 2
  failureThreshold: 60
livenessProbe:
  exec: {command: [curl, -fsS, -o, /dev/null, -m, "4", "http://127.0.0.1:9464/livez"]}
  periodSeconds: 20
  timeoutSeconds: 5
readinessProbe:
  exec: {command: [curl, -fsS, -o, /dev/null, -m, "4", "http://127.0.0.1:9464/readyz"]}
  periodSeconds: 5
  timeoutSeconds: 5
{{- end -}}

{{- define "belljar.metricsProxy" -}}
- name: metrics
  image: {{ .Values.metrics.proxyImage | quote }}
  args:
    - --secure-listen-address=0.0.0.0:{{ .Values.metrics.port }}
    - --upstream=http://127.0.0.1:9464/
    - --allow-paths=/metrics
  ports: [{name: metrics, containerPort: {{ .Values.metrics.port }}}]
  resources: {requests: {cpu: 10m, memory: 32Mi}, limits: {memory: 64Mi}}
  securityContext:
    allowPrivilegeEscalation: false
    readOnlyRootFilesystem: true
    runAsNonRoot: true
    runAsUser: 65532
    capabilities: {drop: [ALL]}
    seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{/* A pod of a worker has its --drain, and 30 seconds more. */}}
{{- define "belljar.grace" -}}
{{- $drain := .Values.worker.drain -}}
{{- if hasSuffix "m" $drain -}}
{{ add 30 (mul 60 (int (trimSuffix "m" $drain))) }}
{{- else -}}
{{ add 30 (int (trimSuffix "s" $drain)) }}
{{- end -}}
{{- end -}}
