package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// A target is what a URL says.
type target struct {
	option rueidis.ClientOption
	where  where
	tag    string
	strict bool
	// The network of its addresses.
	network string
}

// errURL does not quote what it is about, which may be a piece of a password.
var errURL = errors.New("redis: the URL cannot be read: want redis://[USER:PASSWORD@]HOST[:PORT][/DB], " +
	"with / ? # @ % in a password percent-encoded")

// How long a server may take to accept a connection, and for how long one may be
// silent before it counts as lost.
const (
	dialWithin   = 5 * time.Second
	answerWithin = 10 * time.Second
)

func parse(text string, o Options) (*target, error) {
	u, err := url.Parse(text)
	if err != nil || u.Opaque != "" || u.Fragment != "" || strings.Count(text, "@") > 1 {
		return nil, errURL
	}
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errURL
	}
	t := &target{network: "tcp", tag: o.Tag, strict: o.Strict}
	switch u.Scheme {
	case "redis", "valkey":
	case "rediss", "valkeys":
		t.option.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	default:
		return nil, errors.New("redis: the URL's scheme must be redis or rediss")
	}
	db := strings.TrimPrefix(u.Path, "/")
	if q.Has("db") {
		db = q.Get("db")
	}
	if db != "" {
		if t.option.SelectDB, err = strconv.Atoi(db); err != nil || t.option.SelectDB < 0 {
			return nil, errURL
		}
	}
	for _, host := range append([]string{u.Host}, q["addr"]...) {
		a, err := address(host)
		if err != nil {
			return nil, err
		}
		t.option.InitAddress = append(t.option.InitAddress, a)
	}
	if socket := q.Get("socket"); socket != "" {
		t.network, t.option.InitAddress = "unix", []string{socket}
	}
	t.where.host = strings.Join(t.option.InitAddress, ", ")
	if err := t.configure(u, q); err != nil {
		return nil, err
	}
	return t, nil
}

// settings are those that a URL may have.
var settings = []string{"tag", "strict", "db", "addr", "socket", "master_set", "sentinel_user", "sentinel_password", "skip_verify"}

// configure takes over the user and the settings of a URL.
func (t *target) configure(u *url.URL, q url.Values) error {
	for name := range q {
		if !slices.Contains(settings, name) { // which may be a piece of a password, too
			return fmt.Errorf("redis: the URL has a setting that is none of %s", strings.Join(settings, ", "))
		}
	}
	o := &t.option
	if u.User != nil {
		o.Username = u.User.Username()
		o.Password, _ = u.User.Password()
		if o.Password == "" && o.Username != "" {
			return errors.New("redis: the URL has a user and no password: a password alone is written :PASSWORD@")
		}
	}
	o.Sentinel.MasterSet = q.Get("master_set")
	o.Sentinel.Username, o.Sentinel.Password = q.Get("sentinel_user"), q.Get("sentinel_password")
	for _, s := range []string{o.Password, o.Sentinel.Password} {
		if s != "" {
			t.where.secrets = append(t.where.secrets, s)
		}
	}
	if t.where.user = o.Username; t.where.user == "" {
		t.where.user = "default"
	}

	var err error
	if t.strict, err = flag(q, "strict", t.strict); err != nil {
		return err
	}
	skip, err := flag(q, "skip_verify", false)
	if err != nil {
		return err
	}
	if o.TLSConfig != nil {
		o.TLSConfig.InsecureSkipVerify = skip
		o.Sentinel.TLSConfig = o.TLSConfig
	}
	if q.Has("tag") {
		t.tag = q.Get("tag")
	}
	if t.tag, err = tagged(t.tag); err != nil {
		return err
	}

	// Requests of many callers travel together, and each can be given up alone.
	o.AlwaysPipelining = true
	o.DisableCache = true
	o.DisableRetry = true
	o.ClientName = "paceline"
	o.ClientSetInfo = rueidis.DisableClientSetInfo
	o.Dialer.Timeout = dialWithin
	o.ConnWriteTimeout = answerWithin
	return nil
}

// flag reads a setting that is on or off.
func flag(q url.Values, name string, otherwise bool) (bool, error) {
	if !q.Has(name) {
		return otherwise, nil
	}
	v, err := strconv.ParseBool(q.Get(name))
	if err != nil {
		return false, fmt.Errorf("redis: the setting %s is 1 or 0", name)
	}
	return v, nil
}

// address adds the port to a host that has none.
func address(hostport string) (string, error) {
	u, err := url.Parse("//" + hostport)
	if err != nil || u.Host != hostport {
		return "", errURL
	}
	host, port := u.Hostname(), u.Port()
	if host == "" {
		host = "localhost"
	}
	if port == "" {
		port = "6379"
	}
	return net.JoinHostPort(host, port), nil
}

// tagged is a tag that keeps all keys in one slot of a cluster.
func tagged(tag string) (string, error) {
	if tag == "" {
		return "{paceline}", nil
	}
	if _, rest, ok := strings.Cut(tag, "{"); ok {
		if i := strings.Index(rest, "}"); i < 1 {
			return "", errors.New("redis: the tag must have something between its braces")
		}
		return tag, nil
	}
	return "{" + tag + "}", nil
}

// counting makes connections and counts them: a new one may lead to another
// server than the last.
func (t *target) counting(dials *atomic.Int64) func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
	return func(ctx context.Context, address string, d *net.Dialer, c *tls.Config) (conn net.Conn, err error) {
		if c != nil {
			conn, err = (&tls.Dialer{NetDialer: d, Config: c}).DialContext(ctx, t.network, address)
		} else {
			conn, err = d.DialContext(ctx, t.network, address)
		}
		if err == nil {
			dials.Add(1)
		}
		return conn, err
	}
}
