package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A target is the database as errors name it, and what they must not tell.
type target struct {
	host, database, user string
	password             string
}

func (t target) String() string { return "PostgreSQL at " + t.host + ", database " + t.database }

func targetOf(c *pgxpool.Config) target {
	cc := c.ConnConfig
	host := cc.Host
	if !strings.HasPrefix(host, "/") { // else a directory with a socket
		host = net.JoinHostPort(host, strconv.Itoa(int(cc.Port)))
	}
	return target{host: host, database: cmp.Or(cc.Database, cc.User), user: cc.User, password: cc.Password}
}

// connectTimeout bounds what goes on in the background when nobody waits any more.
const connectTimeout = 5 * time.Second

var errURL = errors.New("the limiter's PostgreSQL URL cannot be read: write postgres://USER:PASSWORD@HOST:PORT/DATABASE, special characters in it as %XX")

// mostConnections are used unless the URL says otherwise. More would wait for each
// other in the server, where the same keys are asked for.
const mostConnections = 4

// fewestConnections are kept open: a new one is slow to give its first answer.
const fewestConnections = 2

// parse reads a URL and takes our own settings out of it.
func parse(text string, o Options) (*pgxpool.Config, Options, error) {
	// What url.Parse and pgx say of a URL quotes it, and with it the password.
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return nil, o, errURL
	}
	// What is not ours stays as it is written.
	var rest []string
	for pair := range strings.SplitSeq(u.RawQuery, "&") {
		name, value, _ := strings.Cut(pair, "=")
		if value, err = url.QueryUnescape(value); err != nil {
			return nil, o, errURL
		}
		switch name {
		case "schema":
			o.Schema = value
		case "migrate":
			o.Migrate = value
		case "durable":
			if o.Durable, err = strconv.ParseBool(value); err != nil {
				return nil, o, fmt.Errorf("the limiter's PostgreSQL URL: durable is true or false, not %q", value)
			}
		default:
			rest = append(rest, pair)
		}
	}
	u.RawQuery = strings.Join(rest, "&")

	o.Schema = cmp.Or(o.Schema, defaultSchema)
	if err := checkSchema(o.Schema); err != nil {
		return nil, o, err
	}
	switch o.Migrate = cmp.Or(o.Migrate, "auto"); o.Migrate {
	case "auto", "check", "off":
	default:
		return nil, o, fmt.Errorf("the PostgreSQL limiter's migrate is auto, check or off, not %q", o.Migrate)
	}

	c, err := pgxpool.ParseConfig(u.String())
	if err != nil {
		return nil, o, fmt.Errorf("the limiter's PostgreSQL URL (or a PG* environment variable) cannot be used: %s", reason(err))
	}
	if !strings.Contains(u.RawQuery, "pool_max_conns=") {
		c.MaxConns = min(c.MaxConns, mostConnections)
	}
	if !strings.Contains(u.RawQuery, "pool_min_conns=") {
		c.MinConns = min(c.MaxConns, fewestConnections)
	}
	if c.ConnConfig.ConnectTimeout == 0 || c.ConnConfig.ConnectTimeout > connectTimeout {
		c.ConnConfig.ConnectTimeout = connectTimeout
	}
	if c.ConnConfig.RuntimeParams["application_name"] == "" {
		c.ConnConfig.RuntimeParams["application_name"] = "paceline"
	}
	return c, o, nil
}

// reason is what pgx has against a URL, without the URL.
func reason(err error) string {
	if cause := errors.Unwrap(err); cause != nil {
		var ue *url.Error
		if !errors.As(cause, &ue) {
			return cause.Error()
		}
	}
	return "see the host, the port and the options in its query"
}

// An unusable is an error with what can be done about it.
type unusable struct {
	text  string
	cause error
}

func (e *unusable) Error() string { return e.text }
func (e *unusable) Unwrap() error { return e.cause }

// explain says what an error means for the limiter, and never the password.
func (t target) explain(err error) error {
	text := t.String()
	if hint := t.hint(err); hint != "" {
		text += " " + hint
	}
	said := strings.Join(strings.Fields(err.Error()), " ") // on one line
	// pgx leaves it out itself. A short one is a part of words, and would be told
	// by the gaps.
	if len(t.password) >= 6 {
		said = strings.ReplaceAll(said, t.password, "***")
	}
	return &unusable{text + ": " + said, err}
}

// wrong is an error of ours about the target.
func (t target) wrong(format string, args ...any) error {
	return fmt.Errorf("%s: %s", t, fmt.Sprintf(format, args...))
}

const ownerApplies = "run `paceline limiter migrate --print` and have the database's owner apply what it prints"

func (t target) hint(err error) string {
	switch {
	case isCode(err, "28P01", "28000"):
		return fmt.Sprintf("does not let user %q in (check user and password in the URL, and the server's pg_hba.conf)", t.user)
	case isCode(err, "3D000"):
		return "does not exist (create it, or correct the URL)"
	case isCode(err, "42501"):
		return fmt.Sprintf("denies user %q a right (%s)", t.user, ownerApplies)
	case isCode(err, "3F000", "42P01", "42883", "42704"):
		return fmt.Sprintf("lacks the limiter's schema or a part of it (start anew with migrate=auto, or %s)", ownerApplies)
	case isCode(err, "53300", "53400"):
		return "has no connection left (raise its max_connections, or lower pool_max_conns in the URL)"
	case isCode(err, "25006", "0A000", "25001"):
		return "cannot be written to (is it a standby? Name the primary)"
	case isCode(err, "57P01", "57P02", "57P03"):
		return "is being stopped or started"
	}
	if _, ok := errors.AsType[*pgconn.PgError](err); ok || errors.Is(err, context.Canceled) {
		return ""
	}
	if strings.Contains(err.Error(), "tls") || strings.Contains(err.Error(), "x509") {
		return "cannot be reached safely (see sslmode and sslrootcert in the URL)"
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return "cannot be reached (is it running, and does it listen there?)"
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "does not answer in time (is it running, and not too busy? Else allow it more time)"
	}
	return ""
}
