package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
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
	unix   bool
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
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok || strings.Count(rest, "@") > 1 {
		return nil, errURL
	}
	// Several hosts are more than net/url reads.
	hosts := rest
	if i := strings.IndexAny(hosts, "/?#"); i >= 0 {
		hosts = hosts[:i]
	}
	hosts = hosts[strings.Index(hosts, "@")+1:]
	first, others, _ := strings.Cut(hosts, ",")
	if others != "" {
		text = strings.Replace(text, ","+others, "", 1)
	}
	u, err := url.Parse(text)
	if err != nil || u.Fragment != "" {
		return nil, errURL
	}
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errURL
	}

	t := &target{tag: o.Tag, strict: o.Strict}
	path := strings.Trim(u.Path, "/")
	port := "6379"
	switch scheme {
	case "redis", "valkey":
	case "rediss", "valkeys":
		t.option.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	case "redis+unix", "valkey+unix", "unix":
		t.unix, path = true, ""
	case "redis+sentinel", "rediss+sentinel":
		port = "26379"
		if q.Get("master_set") == "" {
			q.Set("master_set", path)
			path = ""
		}
		if scheme == "rediss+sentinel" {
			t.option.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
		}
	default:
		return nil, errors.New("redis: the URL's scheme must be redis, rediss, redis+unix, redis+sentinel or rediss+sentinel")
	}
	if db := q.Get("db"); db != "" {
		path = db
	}
	if path != "" {
		if t.option.SelectDB, err = strconv.Atoi(path); err != nil || t.option.SelectDB < 0 {
			return nil, errURL
		}
	}

	if t.unix {
		if u.Path == "" || u.Host != "" {
			return nil, errors.New("redis: the URL of a socket is redis+unix:///PATH")
		}
		t.option.InitAddress = []string{u.Path}
	} else {
		all := append([]string{first}, q["addr"]...)
		if others != "" {
			all = append(all, strings.Split(others, ",")...)
		}
		for _, a := range all {
			a, err := address(a, port)
			if err != nil {
				return nil, err
			}
			t.option.InitAddress = append(t.option.InitAddress, a)
		}
	}
	t.where.host = strings.Join(t.option.InitAddress, ", ")

	if err := t.settle(u, q); err != nil {
		return nil, err
	}
	return t, nil
}

// settle takes over the settings of a URL.
func (t *target) settle(u *url.URL, q url.Values) error {
	for name := range q {
		switch name {
		case "tag", "strict", "addr", "db", "master_set", "sentinel_user", "sentinel_password", "skip_verify":
		default:
			return errors.New("redis: the URL has a setting other than tag, strict, addr, db, master_set, " +
				"sentinel_user, sentinel_password, skip_verify")
		}
	}
	o := &t.option
	if u.User != nil {
		o.Username = u.User.Username()
		o.Password, _ = u.User.Password()
		if o.Password == "" && o.Username != "" {
			return errors.New("redis: the URL has a user without a password: a password alone is :PASSWORD@")
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
	o.ClientSetInfo = []string{"paceline", "1"}
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
func address(hostport, port string) (string, error) {
	u, err := url.Parse("//" + hostport)
	if err != nil || u.Host != hostport {
		return "", errURL
	}
	host := u.Hostname()
	if host == "" {
		host = "localhost"
	}
	if u.Port() != "" {
		port = u.Port()
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
	network := "tcp"
	if t.unix {
		network = "unix"
	}
	return func(ctx context.Context, address string, d *net.Dialer, c *tls.Config) (conn net.Conn, err error) {
		if c != nil {
			conn, err = (&tls.Dialer{NetDialer: d, Config: c}).DialContext(ctx, network, address)
		} else {
			conn, err = d.DialContext(ctx, network, address)
		}
		if err == nil {
			dials.Add(1)
		}
		return conn, err
	}
}
