package proxy

import "net/url"

// SendsTo is where a path after a provider's name leads.
func SendsTo(baseURL, rest string) (string, error) {
	base, err := url.Parse(baseURL)
	if err != nil {
		return "", err
	}
	return join(base, rest).String(), nil
}
