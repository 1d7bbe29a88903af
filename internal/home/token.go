package home

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"runtime"
	"strings"
)

// A token begins so, and nothing that does is ever sent to a provider.
const tokenPrefix = "pcl_"

var tokenForm = regexp.MustCompile(`^pcl_[A-Za-z0-9]{20,}$`)

// Token returns the home's own token, made at the first use, and anew where it
// is damaged. Who has it may control the proxy and use the keys stored in it.
func (h Home) Token() (string, error) {
	token, err := h.ReadToken()
	if _, damaged := errors.AsType[*damagedToken](err); damaged {
		// Nobody can have a use for it.
		h.logger().Warn("a new token is made", "error", err)
		if err := os.Remove(h.TokenFile()); err != nil {
			return "", err
		}
		err = fs.ErrNotExist
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return token, err
	}
	if err := h.Make(); err != nil {
		return "", err
	}
	// It is whole before it has its name, and the first of two writers wins.
	f, err := os.CreateTemp(h.Dir, ".token-*") // 0600
	if err != nil {
		return "", h.unusable(err)
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(tokenPrefix + rand.Text() + "\n")
	if err := errors.Join(err, f.Close()); err != nil {
		return "", h.unusable(err)
	}
	if err := os.Link(f.Name(), h.TokenFile()); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", h.unusable(err)
	}
	return h.ReadToken()
}

// ReadToken returns the token of a home whose proxy has run, and closes its
// file to others. Where there is none the error is fs.ErrNotExist.
func (h Home) ReadToken() (string, error) {
	info, err := os.Stat(h.TokenFile())
	if err != nil {
		return "", err
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		if err := os.Chmod(h.TokenFile(), 0o600); err != nil {
			return "", fmt.Errorf("others can read the token %s, and that cannot be changed: %w", h.TokenFile(), err)
		}
		h.logger().Warn("others could read the token; they no longer can. Remove the file and restart for a new one", "file", h.TokenFile())
	}
	b, err := os.ReadFile(h.TokenFile())
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(b))
	if !tokenForm.MatchString(token) {
		return "", &damagedToken{h.TokenFile()}
	}
	return token, nil
}

type damagedToken struct{ file string }

func (e *damagedToken) Error() string {
	return fmt.Sprintf("the token %s is damaged: paceline restart makes a new one", e.file)
}
