package limitertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/paceline-proxy/paceline/limiter"
)

var blobs = []Case{
	{"blobs are kept", nil,
		"hosts tell each other what limits alone do not say", checkBlobs},
	{"a crowd of updates loses none", nil,
		"what one host has learned is not undone by another", checkBlobCrowd},
}

// blob wants something stored.
func blob(b limiter.Blobs, key string, want []byte) error {
	got, err := b.Get(context.Background(), key)
	switch {
	case err != nil:
		return fmt.Errorf("get: %w", err)
	case !bytes.Equal(got, want) || (got == nil) != (want == nil):
		return fmt.Errorf("got %q of %q, want %q", got, key, want)
	}
	return nil
}

// blobs is the limiter as one that keeps blobs. One behind a wire may have the
// methods for another that has not.
func (s *Subject) blobs() (limiter.Blobs, error) {
	b, ok := s.Limiter.(limiter.Blobs)
	if !ok {
		return nil, ErrNotPromised
	}
	if _, err := b.Get(context.Background(), s.Key("any")); errors.Is(err, errors.ErrUnsupported) {
		return nil, ErrNotPromised
	}
	return b, nil
}

func checkBlobs(s *Subject) error {
	b, err := s.blobs()
	if err != nil {
		return err
	}
	// A name means one thing as a bucket, another as a caller, a third here.
	a := s.Rate("a", 1, 1000) // longer than large blobs take
	if _, err := s.Granted("a call", s.By("a", a)); err != nil {
		return err
	}
	if _, err := s.throttle("closed", 1000); err != nil {
		return err
	}
	for _, name := range []string{"a", "closed", "p/q r:{s}%'\"\\\x00é"} {
		key := s.Key(name)
		if err := blob(b, key, nil); err != nil {
			return err
		}
		var before []byte
		for _, value := range [][]byte{[]byte("\x00\xff\n'{}"), bytes.Repeat([]byte("0123456789"), 10_000), []byte("x")} {
			err := b.Update(context.Background(), key, func(old []byte) []byte {
				before = bytes.Clone(old)
				return append(bytes.Clone(old), value...)
			})
			if err != nil {
				return fmt.Errorf("update: %w", err)
			}
			if err := blob(b, key, append(before, value...)); err != nil {
				return err
			}
		}
		if len(before) != 100_006 {
			return fmt.Errorf("the last update was given %d bytes, want 100006", len(before))
		}
	}
	if err := blob(b, s.Key("another"), nil); err != nil {
		return err
	}
	if _, err := s.Refused("a window named like a blob", s.By("a", a), limiter.Rate); err != nil {
		return err
	}
	_, err = s.Refused("a caller named like a blob", s.By("closed"), limiter.Throttle)
	return err
}

func checkBlobCrowd(s *Subject) error {
	b, err := s.blobs()
	if err != nil {
		return err
	}
	return s.countTogether(b, b)
}

// countTogether counts with updates made at once through several limiters.
func (s *Subject) countTogether(hosts ...limiter.Blobs) error {
	const each, times = 4, 8
	key := s.Key("count")
	err := crowd(each*len(hosts), func(i int) error {
		for range times {
			var bad error
			err := hosts[i%len(hosts)].Update(context.Background(), key, func(old []byte) []byte {
				n := 0
				if old != nil {
					n, bad = strconv.Atoi(string(old))
				}
				return strconv.AppendInt(nil, int64(n+1), 10)
			})
			if err == nil {
				err = bad
			}
			if err != nil {
				return fmt.Errorf("update: %w", err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, h := range hosts {
		if err := blob(h, key, strconv.AppendInt(nil, int64(each*times*len(hosts)), 10)); err != nil {
			return err
		}
	}
	return nil
}
