package dialect

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
)

// usualCredential looks where API keys usually are. What is replaced by the
// hour, or differs from request to request, has something in it that stays: a
// JWT its issuer and subject, a signature of AWS the id of its key.
func usualCredential(h http.Header, u *url.URL) string {
	if scheme, token, found := strings.Cut(strings.TrimSpace(h.Get("Authorization")), " "); found {
		token = strings.TrimSpace(token)
		if strings.EqualFold(scheme, "Bearer") {
			if who, ok := jwtIdentity(token); ok {
				return who
			}
		}
		if id, ok := signingKey(scheme, token); ok {
			return id
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
	if u != nil && u.RawQuery != "" {
		q := u.Query()
		if id, _, found := strings.Cut(q.Get("X-Amz-Credential"), "/"); found {
			return id
		}
		return q.Get("key")
	}
	return ""
}

// bearer is the token of Authorization, empty where there is none.
func bearer(h http.Header) string {
	scheme, token, _ := strings.Cut(strings.TrimSpace(h.Get("Authorization")), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// signingKey is the id of the key that signs a request to AWS:
// AWS4-HMAC-SHA256 Credential=ID/20260101/us-east-1/bedrock/aws4_request, ….
func signingKey(scheme, token string) (string, bool) {
	if !strings.HasPrefix(strings.ToUpper(scheme), "AWS4-") {
		return "", false
	}
	_, id, found := strings.Cut(token, "Credential=")
	id, _, scoped := strings.Cut(id, "/")
	return id, found && scoped && id != ""
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
