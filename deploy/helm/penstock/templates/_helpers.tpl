{{- define "penstock.name" -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "penstock.selector" -}}
app.kubernetes.io/name: {{ .part }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- end -}}

{{- define "penstock.labels" -}}
{{ include "penstock.selector" . }}
app.kubernetes.io/part-of: penstock
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{- end -}}

{{- define "penstock.image" -}}
image: "{{ .Values.image.name }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end -}}

{{- define "penstock.pod-security" -}}
automountServiceAccountToken: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- /* What image registries and nodes ask of a pod: of all pods, then of those of a part. */ -}}
{{- define "penstock.placement" -}}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.serviceAccountName }}
serviceAccountName: {{ . }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "penstock.container-security" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end -}}

{{- /* The port that probes ask: nsqd answers plain HTTP with 403 where TLS is required. */ -}}
{{- define "penstock.probed" -}}
port: {{ if .https }}https, scheme: HTTPS{{ else }}http{{ end }}
{{- end -}}

{{- /* Alive is a daemon that answers, ready one that does its work. /ping is not asked: it fails when a
disk is full, which a restart would not mend, and consumers go on. */ -}}
{{- define "penstock.probes" -}}
startupProbe:
  httpGet: {path: /live, {{ include "penstock.probed" . }}}
  periodSeconds: 5
  timeoutSeconds: 5
  # A big log is looked through after a crash: an hour.
  failureThreshold: 720
livenessProbe:
  httpGet: {path: /live, {{ include "penstock.probed" . }}}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /ready, {{ include "penstock.probed" . }}}
  periodSeconds: 5
  timeoutSeconds: 3
{{- end -}}

{{- /* Each nsqlookupd has a name, and every nsqd registers with all of them. */ -}}
{{- define "penstock.lookupds" -}}
{{- $name := include "penstock.name" .root -}}
{{- range until (int .root.Values.nsqlookupd.replicas) }}
- --{{ $.flag }}={{ $name }}-nsqlookupd-{{ . }}.{{ $name }}-nsqlookupd-nodes:{{ $.port }}
{{- end }}
{{- end -}}

{{- /* A volume of its own for each pod of a StatefulSet. */ -}}
{{- define "penstock.claim" -}}
volumeClaimTemplates:
  - metadata:
      name: data
    spec:
      accessModes: [ReadWriteOnce]
      {{- with .className }}
      storageClassName: {{ . }}
      {{- end }}
      resources:
        requests:
          storage: {{ .size }}
{{- end -}}

{{- /* All name servers of RocketMQ in one text, as brokers and clients are given them. */ -}}
{{- define "penstock.name-servers" -}}
{{- $name := include "penstock.name" . -}}
{{- range until (int .Values.rocketmq.namesrv.replicas) }}
{{- if . }};{{ end }}{{ $name }}-mqnamesrv-{{ . }}.{{ $name }}-mqnamesrv-nodes:9876
{{- end }}
{{- end -}}
