package daemon

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/paceline-proxy/paceline/internal/config"
)

// upstream is what sends to the providers. Nothing of a body or header is
// changed by it.
func upstream(c *config.Config) (*http.Transport, error) {
	via := make(map[string]config.Upstream) // by host
	var errs []error
	roots, err := trusted(c)
	errs = append(errs, err)
	for _, p := range c.Providers {
		if u, err := url.Parse(p.BaseURL); err == nil && p.Upstream.Proxy != "" {
			via[u.Host] = p.Upstream
		}
	}
	general, err := proxyFunc(c.Upstream.Proxy)
	errs = append(errs, err)
	own := make(map[string]func(*http.Request) (*url.URL, error))
	for host, u := range via {
		f, err := proxyFunc(u.Proxy)
		own[host] = f
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	connect := 10 * time.Second
	for _, p := range c.Providers {
		connect = max(connect, p.Connect)
	}
	dialer := &net.Dialer{Timeout: connect, KeepAlive: 30 * time.Second}
	return &http.Transport{
		Proxy: func(r *http.Request) (*url.URL, error) {
			if f := own[r.URL.Host]; f != nil {
				return f(r)
			}
			return general(r)
		},
		DialContext:         dialer.DialContext,
		TLSClientConfig:     &tls.Config{RootCAs: roots},
		TLSHandshakeTimeout: connect,
		ForceAttemptHTTP2:   true,
		// Compression is between the client and the provider.
		DisableCompression: true,
		// Hundreds of streams end together and begin again.
		MaxIdleConnsPerHost:    1024,
		IdleConnTimeout:        90 * time.Second,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: 1 << 20,
	}, nil
}

// proxyFunc reads a value of upstream.proxy.
func proxyFunc(v string) (func(*http.Request) (*url.URL, error), error) {
	switch v {
	case "", "env":
		return http.ProxyFromEnvironment, nil
	case "none":
		return func(*http.Request) (*url.URL, error) { return nil, nil }, nil
	}
	u, err := url.Parse(v)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("upstream.proxy is %q: give env, none or a URL such as http://proxy.example:3128", v)
	}
	return http.ProxyURL(u), nil
}

// trusted are the certificates to trust, nil for the system's alone. Those of
// one provider's caFile are trusted of all.
func trusted(c *config.Config) (*x509.CertPool, error) {
	files := []string{c.Upstream.CAFile}
	for _, p := range c.Providers {
		files = append(files, p.Upstream.CAFile)
	}
	var pool *x509.CertPool
	var errs []error
	for _, file := range files {
		if file == "" {
			continue
		}
		if pool == nil {
			var err error
			if pool, err = x509.SystemCertPool(); err != nil {
				pool = x509.NewCertPool()
			}
		}
		pem, err := os.ReadFile(file)
		if err != nil {
			errs = append(errs, fmt.Errorf("upstream.caFile: %w", err))
		} else if !pool.AppendCertsFromPEM(pem) {
			errs = append(errs, fmt.Errorf("upstream.caFile: %s holds no certificate in PEM form", file))
		}
	}
	return pool, errors.Join(errs...)
}
