package dialect

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
)

// usualCredential looks where API keys usually are. A bearer token that is a
// JWT is replaced every hour or so: its issuer and subject stay.
func usualCredential(h http.Header, u *url.URL) string {
	if scheme, token, found := strings.Cut(strings.TrimSpace(h.Get("Authorization")), " "); found {
		token = strings.TrimSpace(token)
		if strings.EqualFold(scheme, "Bearer") {
			if who, ok := jwtIdentity(token); ok {
				return who
			}
		}
		if token != "" {
			return token
		}
	} else if scheme != "" && !strings.EqualFold(scheme, "Bearer") {
		return scheme // a bare key
	}
	for _, name := range []string{"X-Api-Key", "Api-Key", "X-Goog-Api-Key"} {
		if key := strings.TrimSpace(h.Get(name)); key != "" {
			return key
		}
	}
	if u != nil {
		return u.Query().Get("key")
	}
	return ""
}

// maxToken bounds the tokens that are taken apart.
const maxToken = 16 << 10

// jwtIdentity is who a JWT is about. The signature is the provider's business:
// a forged token only names a budget of its own.
func jwtIdentity(token string) (string, bool) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 || len(token) > maxToken {
		return "", false
	}
	var head struct {
		Alg string `json:"alg"`
	}
	var claims struct {
		Issuer  string `json:"iss"`
		Subject string `json:"sub"`
	}
	if !decodePart(parts[0], &head) || head.Alg == "" ||
		!decodePart(parts[1], &claims) || claims.Subject == "" {
		return "", false
	}
	return "jwt\x00" + claims.Issuer + "\x00" + claims.Subject, true
}

func decodePart(part string, v any) bool {
	b, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(part, "="))
	return err == nil && json.Unmarshal(b, v) == nil
}
