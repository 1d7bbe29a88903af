package redis_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/internal/servertest"
	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/limiter/redis"
)

// within is a context that ends soon.
func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// fails wants an error that says certain words and nothing of the secret.
func fails(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	for e := err; e != nil; e = errors.Unwrap(e) {
		if strings.Contains(e.Error(), "hunter") {
			t.Errorf("the password is in %q", e)
		}
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
}

// L-21: a URL that cannot be used is an error that says what is wrong and not
// what the password is.
func TestURLs(t *testing.T) {
	for url, words := range map[string][]string{
		"redis://:hunter/2@localhost":                           {"percent-encoded"},
		"redis://me:hunter#2@localhost:6379":                    {"percent-encoded"},
		"redis://me:hunter?2@localhost:6379":                    {"percent-encoded"},
		"redis://me:hunter@2@localhost:6379":                    {"percent-encoded"},
		"redis://me:hunter%2@localhost:6379":                    {"percent-encoded"},
		"redis://me:hunter2@localhost:notaport":                 {"percent-encoded"},
		"redis://localhost/hunter2":                             {"[/DB]"},
		"redis://localhost/-1":                                  {"[/DB]"},
		"redis:localhost":                                       {"redis://"},
		"reddis://me:hunter2@localhost":                         {"scheme"},
		"redis://me@localhost":                                  {"no password"},
		"redis://:hunter2@localhost?strict=maybe":               {"strict is 1 or 0"},
		"redis://:hunter2@localhost?hunter3=1":                  {"none of tag, strict"},
		"redis://localhost?tag=%7B%7D":                          {"braces"},
		"redis://localhost?addr=a/hunter2":                      {"redis://"},
		"rediss://localhost?skip_verify=hunter2":                {"skip_verify is 1 or 0"},
		"redis://:hunter2@localhost:6379 ":                      {"redis://"},
		"redis://localhost?sentinel_password=hunter2&strict=on": {"strict is 1 or 0"},
	} {
		_, err := redis.Open(within(t, time.Second), url, redis.Options{})
		t.Run(strings.ReplaceAll(url, "/", "|"), func(t *testing.T) { fails(t, err, words...) })
	}
}

func TestTag(t *testing.T) {
	s := servertest.StartRedis(t)
	keys := admin(t, s.URL)
	for _, c := range []struct{ url, option, prefix string }{
		{"", "", "{paceline}"},
		{"", "team", "{team}"},
		{"", "a{team}b", "a{team}b"},
		{"?tag=other", "team", "{other}"},
	} {
		keys("FLUSHALL")
		l := open(t, s.URL+c.url, redis.Options{Tag: c.option})
		d := granted(t, l, limiter.Request{Key: "someone@example.org", Hold: time.Minute, Limits: []limiter.Limit{
			{Key: "account/secretive", Calls: 1000, Per: time.Minute, Cost: 10, Concurrent: 3},
		}})
		if err := l.Throttle(context.Background(), "someone@example.org", time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		if err := l.Update(context.Background(), "secretive", func([]byte) []byte { return []byte("x") }); err != nil {
			t.Fatal(err)
		}
		all := strings.Fields(keys("EVAL", "return table.concat(redis.call('KEYS', '*'), ' ')", "0"))
		if len(all) != 5 { // epoch, bucket, throttle, record, blob
			t.Errorf("%d keys: %q", len(all), all)
		}
		for _, key := range all {
			if !strings.HasPrefix(key, c.prefix) || strings.Contains(key, "secretive") || strings.Contains(key, "someone") {
				t.Errorf("key %q, want %q and a hash", key, c.prefix)
			}
			if ttl := keys("TTL", key); (ttl == "-1") != (key == c.prefix+"epoch" || strings.HasPrefix(key, c.prefix+"s")) {
				t.Errorf("%q is kept for %s s", key, ttl)
			}
		}
		if d.Permit == "" {
			t.Error("no permit")
		}
	}
}

func TestPasswords(t *testing.T) {
	s := servertest.StartRedis(t, "--requirepass", "hunter2")
	url := func(user string) string { return strings.Replace(s.URL, "redis://", "redis://"+user+"@", 1) }
	do := admin(t, url(":hunter2"))
	do("ACL", "SETUSER", "app", "on", ">hunter3", "~{paceline}*", "+eval", "+evalsha", "+get", "+mget", "+set", "+del",
		"+pexpire", "+time", "+info", "+hello", "+ping")
	do("ACL", "SETUSER", "mute", "on", ">hunter4", "~*", "+@all", "-@scripting")
	do("ACL", "SETUSER", "blind", "on", ">hunter5", "~*", "+@all", "-info")
	do("ACL", "SETUSER", "reader", "on", ">hunter6", "~*", "+@all", "-set")
	do("ACL", "SETUSER", "stranger", "on", ">hunter7", "~other*", "+@all")

	for _, c := range []struct {
		url   string
		words []string
	}{
		{s.URL, []string{"user and the password"}},
		{url(":hunter9"), []string{"user and the password"}},
		{url("app:hunter9"), []string{"user and the password"}},
		{url("nobody:hunter2"), []string{"user and the password"}},
		{url("mute:hunter4"), []string{"\"mute\"", "rights"}},
		{url("reader:hunter6"), []string{"\"reader\"", "rights"}},
		{url("stranger:hunter7"), []string{"\"stranger\"", "rights"}},
	} {
		_, err := redis.Open(within(t, 10*time.Second), c.url, redis.Options{})
		fails(t, err, append(c.words, "redis at "+s.Addr)...)
	}

	// The rights that the documentation lists are enough for everything.
	l := open(t, url("app:hunter3"), redis.Options{})
	everything(t, l)
	if w := l.Warnings(); len(w) > 0 {
		t.Errorf("warnings: %q", w)
	}
	l = open(t, url("blind:hunter5"), redis.Options{})
	everything(t, l)
	if w := l.Warnings(); len(w) != 1 || !strings.Contains(w[0], "+info") {
		t.Errorf("warnings: %q", w)
	}

	// A right that is taken away later.
	l = open(t, url("app:hunter3"), redis.Options{})
	do("ACL", "SETUSER", "app", "-mget")
	_, err := l.Acquire(within(t, 10*time.Second), window("a", 1, time.Hour))
	fails(t, err, "\"app\"", "rights")
}

// everything calls every method, and wants none of them to fail.
func everything(t *testing.T, l *redis.Limiter) {
	t.Helper()
	for _, c := range every(l) {
		if err := c.call(within(t, 10*time.Second)); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

type call struct {
	name string
	call func(context.Context) error
}

// every is a call of every method that asks the server.
func every(l *redis.Limiter) []call {
	permit := ""
	return []call{
		{"Acquire", func(ctx context.Context) error {
			d, err := l.Acquire(ctx, limiter.Request{Key: "c", Hold: time.Minute, Limits: []limiter.Limit{
				{Key: fmt.Sprint(time.Now().UnixNano()), Calls: 9, Per: time.Minute, Cost: 2, Concurrent: 1},
			}})
			if err == nil && !d.Granted {
				err = fmt.Errorf("refused: %+v", d)
			}
			if permit == "" {
				permit = d.Permit
			}
			return err
		}},
		{"AcquireBatch", func(ctx context.Context) error {
			_, err := l.AcquireBatch(ctx, []limiter.Request{{}, {}})
			return err
		}},
		{"Settle", func(ctx context.Context) error {
			return l.Settle(ctx, someone(permit), []limiter.Cost{{Key: "a", Cost: 3}})
		}},
		{"Renew", func(ctx context.Context) error { return l.Renew(ctx, []string{someone(permit)}, time.Hour) }},
		{"Release", func(ctx context.Context) error { return l.Release(ctx, someone(permit)) }},
		{"Throttle", func(ctx context.Context) error { return l.Throttle(ctx, "b", time.Now().Add(time.Hour)) }},
		{"Open", func(ctx context.Context) error { return l.Open(ctx, "b") }},
		{"Peek", func(ctx context.Context) error {
			_, err := l.Peek(ctx, "b", []limiter.Limit{{Key: "a", Calls: 1, Per: 1}})
			return err
		}},
		{"Seed", func(ctx context.Context) error {
			return l.Seed(ctx, []limiter.Limit{{Key: "a", Calls: 1, Per: time.Minute}}, time.Now())
		}},
		{"Get", func(ctx context.Context) error { _, err := l.Get(ctx, "b"); return err }},
		{"Update", func(ctx context.Context) error {
			return l.Update(ctx, "b", func([]byte) []byte { return []byte("b") })
		}},
	}
}

// someone is a permit, or one that was granted to nobody.
func someone(permit string) string {
	if permit != "" {
		return permit
	}
	name, hasRecord, bucket := make([]byte, 12), []byte{1}, make([]byte, 16)
	return base64.RawURLEncoding.EncodeToString(slices.Concat(name, hasRecord, bucket))
}

// CC-24: a server that says nothing keeps nobody longer than they want to wait.
func TestHanging(t *testing.T) {
	s := servertest.StartRedis(t)
	a := newAlias(t, s.Addr)
	l := open(t, a.url(), redis.Options{})
	everything(t, l)
	a.lead("") // takes connections and is silent
	_, _ = l.Acquire(within(t, 50*time.Millisecond), limiter.Request{})
	for _, c := range every(l) {
		for what, ctx := range map[string]context.Context{
			"a deadline":     within(t, 50*time.Millisecond),
			"a cancellation": cancelled(t, 50*time.Millisecond),
		} {
			start := time.Now()
			err := c.call(ctx)
			if took := time.Since(start); took > 2*time.Second {
				t.Errorf("%s took %v despite %s", c.name, took, what)
			}
			if err == nil || errors.Is(err, limiter.ErrInvalid) {
				t.Errorf("%s: %v", c.name, err)
			}
		}
	}
	if _, err := redis.Open(within(t, 50*time.Millisecond), a.url(), redis.Options{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("opening: %v", err)
	}
	a.lead(s.Addr)
	eventually(t, "coming back", answers(l))
}

func cancelled(t testing.TB, after time.Duration) context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(after, cancel)
	t.Cleanup(cancel)
	return ctx
}

func TestUnreachable(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := ln.Addr().String()
	ln.Close()
	_, err = redis.Open(within(t, 10*time.Second), "redis://:hunter2@"+address, redis.Options{})
	fails(t, err, "redis at "+address, "check host and port")
	_, err = redis.Open(within(t, 10*time.Second), "redis://:hunter2@localhost?socket=/nowhere/at/all", redis.Options{})
	fails(t, err, "redis at /nowhere/at/all", "check")
	_, err = redis.Open(within(t, 10*time.Second), "redis://:hunter2@"+address+"?master_set=main&sentinel_password=hunter3", redis.Options{})
	fails(t, err, "redis at "+address, "check host and port")
}

func TestClosed(t *testing.T) {
	l := open(t, servertest.Redis(t), redis.Options{Tag: t.Name()})
	granted(t, l, limiter.Request{})
	for range 2 {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, c := range every(l) {
		if err := c.call(t.Context()); err == nil || !strings.Contains(err.Error(), "closed") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	for what, err := range map[string]error{
		"Release of no permit": l.Release(t.Context(), "x"),
		"Renew of nothing":     l.Renew(t.Context(), nil, time.Hour),
		"Settle of no permit":  l.Settle(t.Context(), "x", nil),
		"Throttle in the past": l.Throttle(t.Context(), "x", time.Time{}),
		"Seed of nothing":      l.Seed(t.Context(), nil, time.Now()),
	} {
		if err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}

func TestEviction(t *testing.T) {
	s := servertest.StartRedis(t, "--maxmemory", "100mb", "--maxmemory-policy", "volatile-ttl")
	l := open(t, s.URL, redis.Options{})
	if w := l.Warnings(); len(w) != 1 || !strings.Contains(w[0], "volatile-ttl") || !strings.Contains(w[0], "noeviction") {
		t.Errorf("warnings: %q", w)
	}
	everything(t, l)
	for url, o := range map[string]redis.Options{s.URL + "?strict=1": {}, s.URL: {Strict: true}} {
		_, err := redis.Open(t.Context(), url, o)
		fails(t, err, "redis at "+s.Addr, "volatile-ttl", "noeviction")
	}
	open(t, s.URL+"?strict=0", redis.Options{Strict: true})
	admin(t, s.URL)("CONFIG", "SET", "maxmemory-policy", "noeviction")
	if w := open(t, s.URL, redis.Options{Strict: true}).Warnings(); len(w) > 0 {
		t.Errorf("warnings: %q", w)
	}
}

// oldRedis speaks as a Redis that is too old does, quoting what it was sent.
func oldRedis(t testing.TB) (address string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	const info = "# Server\r\nredis_version:5.0.7\r\nrun_id:0123456789012345678901234567890123456789\r\n"
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				r := bufio.NewReader(c)
				for {
					args, err := command(r)
					if err != nil {
						return
					}
					switch strings.ToUpper(args[0]) {
					case "AUTH", "SELECT", "CLIENT":
						fmt.Fprint(c, "+OK\r\n")
					case "EVALSHA":
						epoch := strings.Repeat("x", 80)
						fmt.Fprintf(c, "*4\r\n$80\r\n%s\r\n$%d\r\n%s\r\n$0\r\n\r\n$0\r\n\r\n", epoch, len(info), info)
					default:
						fmt.Fprintf(c, "-ERR unknown command `%s`, with args beginning with: %q\r\n", args[0], args[1:])
					}
				}
			}()
		}
	}()
	return ln.Addr().String()
}

func command(r *bufio.Reader) ([]string, error) {
	var n int
	if _, err := fmt.Fscanf(r, "*%d\r\n", &n); err != nil {
		return nil, err
	}
	var args []string
	for range n {
		var size int
		if _, err := fmt.Fscanf(r, "$%d\r\n", &size); err != nil {
			return nil, err
		}
		b := make([]byte, size+2)
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, err
		}
		args = append(args, string(b[:size]))
	}
	return args, nil
}

func TestOldVersion(t *testing.T) {
	address := oldRedis(t)
	_, err := redis.Open(within(t, 10*time.Second), "redis://me:hunter2@"+address, redis.Options{})
	fails(t, err, "redis at "+address, "5.0.7 is too old", "6.2")
}

// certificate writes one that nobody vouches for.
func certificate(t testing.TB) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	signed, err := x509.CreateCertificate(rand.Reader, about, about, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	bytes, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = dir+"/cert", dir+"/key"
	for file, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: signed}, key: {Type: "PRIVATE KEY", Bytes: bytes}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

func TestTLS(t *testing.T) {
	cert, key := certificate(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := ln.Addr().String()
	ln.Close()
	_, port, _ := net.SplitHostPort(address)
	servertest.StartRedis(t, "--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", key,
		"--tls-ca-cert-file", cert, "--tls-auth-clients", "no")
	everything(t, open(t, "rediss://"+address+"?skip_verify=1", redis.Options{}))
	_, err = redis.Open(within(t, 10*time.Second), "rediss://:hunter2@"+address, redis.Options{})
	fails(t, err, "redis at "+address, "certificate")
}

func TestSocket(t *testing.T) {
	dir := t.TempDir()
	servertest.StartRedis(t, "--unixsocket", dir+"/s")
	l := open(t, "redis://localhost?socket="+dir+"/s&db=3", redis.Options{})
	everything(t, l)
}
