package dialect

import (
	"net/http"
	"net/url"
)

// The methods below are how a Dialect is used: each does what its field says,
// or the usual thing where the field, or the Dialect itself, is nil.

// ReadHead says what one response means. body is the bounded beginning of a
// refusal's body, decoded; nil for a success, whose body tells nothing here
// unless it turns out to hide a refusal.
func (d *Dialect) ReadHead(h Head, body []byte) Reading {
	if d == nil || d.Read == nil {
		return reader{}.read(h, body)
	}
	return d.Read(h, body)
}

// DemandOf says what a request may cost. body may be nil, cut off or anything
// else; the request's own body is not touched.
func (d *Dialect) DemandOf(r *http.Request, body []byte) Demand {
	if d == nil || d.Demand == nil {
		return d.reserved(r, estimate(r, body))
	}
	return d.reserved(r, d.Demand(r, body))
}

// reserved fills in what a provider reserves of output where the request names no
// maximum.
func (d *Dialect) reserved(r *http.Request, demand Demand) Demand {
	if d != nil && demand.Output == 0 && d.Metering.Charges.Default > 0 && d.KindOf(r) == Inference {
		demand.Output = d.Metering.Charges.Default
	}
	return demand
}

// KindOf says what a request is for.
func (d *Dialect) KindOf(r *http.Request) Kind {
	if d == nil || d.Kind == nil {
		return usualKind(r)
	}
	return d.Kind(r)
}

// CredentialOf returns what is stable in the credential a request carries,
// empty where it carries none. It is a secret.
func (d *Dialect) CredentialOf(h http.Header, u *url.URL) string {
	if d == nil || d.Credential == nil {
		return usualCredential(h, u)
	}
	return d.Credential(h, u)
}
