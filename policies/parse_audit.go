package policies

import (
	"net/url"
	"path"
	"time"

	"go.yaml.in/yaml/v3"
)

// audit reads how the log is kept.
func (d *policyDecoder) audit(n *yaml.Node) Audit {
	a := DefaultAudit(AuditRequest)
	o, ok := d.mapping(n, "audit", auditShape)
	if !ok {
		return a
	}
	if v := o.get("level"); v != nil {
		if i := d.word(v, "level", auditLevels...); i >= 0 {
			a.Level = AuditLevel(i)
		}
	}
	if v := o.get("required"); v != nil {
		a.Required = d.truth(v, "required")
		if a.Required && a.Level == AuditNone {
			d.Fault(v, "choose another level, or drop required", "an audit log of the level none cannot be required")
		}
	}
	if v := o.get("fsync"); v != nil {
		if value, ok := d.duration(v, "fsync"); ok {
			a.Fsync = value
			if value > time.Minute {
				d.Fault(v, "write a time up to 1m", "fsync is %v: a power failure would lose too much", value)
			}
		}
	}
	if v := o.get("rotate"); v != nil {
		if value, ok := d.count(v, "rotate", 1<<40, true); ok {
			a.Rotate = value
			if value < 64<<10 {
				d.Fault(v, "write at least 64KiB", "rotate is %d bytes, less than the size at which a file of the log may be rotated", value)
			}
		}
	}
	if v := o.get("keep"); v != nil {
		if value, ok := d.count(v, "keep", 10_000, false); ok {
			a.Keep = int(value)
		}
	}
	if v := o.get("redact"); v != nil {
		d.redact(v, &a)
	}
	if v := o.get("otlp"); v != nil {
		a.OTLP = d.otlp(v)
	}
	if v := o.get("path"); v != nil {
		if text, ok := d.text(v, "path"); ok {
			if !path.IsAbs(text) || path.Clean(text) != text || text == "/" || control(text) {
				d.Fault(v, "write an absolute directory of the host in its shortest form", "path %s cannot hold the audit log", shown(text))
			}
			a.Path = text
		}
	}
	return a
}

// redact reads what is removed from records. The words replace the default, secrets and env:
// `redact: emails` leaves secrets in the log.
func (d *policyDecoder) redact(n *yaml.Node, a *Audit) {
	a.PlainSecrets, a.PlainEnv = true, true
	words, none := 0, false
	d.texts(n, "redact", func(n *yaml.Node, _ string) {
		words++
		switch d.word(n, "redact", "secrets", "env", "emails", "tokens", "none") {
		case 0:
			a.PlainSecrets = false
		case 1:
			a.PlainEnv = false
		case 2:
			a.Emails = true
		case 3:
			a.Tokens = true
		case 4:
			none = true
		}
	})
	if none && words > 1 {
		d.Fault(n, "write redact: none, or remove none from the list", "redact names none together with other words")
	}
}

// otlp reads where spans go: a collector's URL, true for the collector that the environment
// names, or false for none.
func (d *policyDecoder) otlp(n *yaml.Node) string {
	const hint = "write the URL of a collector, for example http://127.0.0.1:4318, or true for the one that the environment names"
	if n.Kind != yaml.ScalarNode {
		d.Fault(n, hint, "otlp cannot be %s", kind(n))
		return ""
	}
	if n.ShortTag() == "!!bool" {
		if d.truth(n, "otlp") {
			return OTLPStandard
		}
		return ""
	}
	u, err := url.Parse(n.Value)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || control(n.Value) {
		d.Fault(n, hint, "otlp cannot be %s", quoted(n))
		return ""
	}
	return n.Value
}
