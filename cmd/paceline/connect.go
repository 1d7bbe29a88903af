package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/renameio/v2/maybe"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/paceline-proxy/paceline/internal/config"
	"github.com/paceline-proxy/paceline/internal/home"
	"github.com/paceline-proxy/paceline/internal/modules"
)

// connectFlags are what connect is told.
type connectFlags struct {
	set     []string
	verbose bool
}

func newConnect() *cobra.Command {
	var f connectFlags
	c := &cobra.Command{
		Use:   "connect NAME",
		Short: "Ask for the settings of a limiter module, and try it",
		Long: `Ask for the settings that a limiter module wants, start it, open it once with
them, and keep them if that worked. The module is a folder in modules of the home,
with a manifest, ` + config.ManifestFile + `: name, kind: core, slot: limiter, command,
settings. limiter: {url: module:NAME} in the configuration makes it the limiter.
` + homeHelp() + `

What is secret is not shown. The settings are kept beside the manifest, in
` + config.SettingsFile + `, for this user alone. Enter keeps what is kept already, and - takes
it away.

Where nobody can be asked, --set says what to keep. A secret is given there as a
reference, ${VARIABLE} or file:PATH, since other users can see a command line.
References are kept as they are, and read when the module is opened.`,
		Example: `  paceline connect postgres
  paceline connect postgres --set schema=limits --set 'url=${DATABASE_URL}'
  paceline connect postgres --set url=file:/run/secrets/database`,
		Args: func(_ *cobra.Command, args []string) error {
			switch len(args) {
			case 0:
				return usagef("connect needs the name of a module: paceline connect NAME")
			case 1:
				return nil
			}
			return usagef("connect takes one module: %q is too much", args[1])
		},
		ValidArgsFunction: completeModules,
		RunE:              func(c *cobra.Command, args []string) error { return f.run(c, args[0]) },
	}
	c.Flags().StringArrayVar(&f.set, "set", nil, "keep `NAME=VALUE`; may be given again")
	c.Flags().BoolVar(&f.verbose, "verbose", false, "print what the module says while it is tried")
	return c
}

func completeModules(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var names []cobra.Completion
	if h, err := home.Find(); err == nil {
		entries, _ := os.ReadDir(modules.Dir(h.Dir, "")) // without it there are none
		for _, e := range entries {
			names = append(names, e.Name())
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func (f *connectFlags) run(c *cobra.Command, name string) error {
	h, err := home.Find()
	if err != nil {
		return err
	}
	m, err := modules.Load(h.Dir, name)
	if err != nil {
		return err
	}
	given, err := f.given(m)
	if err != nil {
		return err
	}
	kept, err := m.LoadSettings()
	if _, ok := errors.AsType[config.Faults](err); err != nil && !ok {
		return err
	} // a setting that is wrong may be replaced; those that stay are read again
	written := make(map[string]string)
	for name, v := range kept {
		written[name] = v.Written
	}
	if in, ok := c.InOrStdin().(*os.File); ok && term.IsTerminal(int(in.Fd())) {
		if err := ask(c.Context(), m, in, c.ErrOrStderr(), given, written); err != nil {
			return err
		}
	}
	for name, value := range given {
		written[name] = value
	}
	content, err := m.WriteSettings(written)
	if err != nil {
		return err
	}
	settings, err := m.ReadSettings(content)
	if err != nil {
		return err
	}
	if err := f.try(c, m, settings); err != nil {
		return err
	}
	path := filepath.Join(m.Dir, config.SettingsFile)
	_ = os.Chmod(path, 0o600) // one that is there gives its mode to the next
	if err := maybe.WriteFile(path, content, 0o600); err != nil {
		return fmt.Errorf("the settings cannot be kept: %w", err)
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "%s works, and its settings are kept in %s\nto use it: limiter: {url: module:%s}\n", name, path, name)
	return err
}

// given are the settings of --set.
func (f *connectFlags) given(m *config.Module) (map[string]string, error) {
	given := make(map[string]string)
	for _, set := range f.set {
		name, value, ok := strings.Cut(set, "=")
		i := slices.IndexFunc(m.Settings, func(s config.Setting) bool { return s.Name == name })
		switch {
		case !ok:
			return nil, usagef("--set is no NAME=VALUE: give one of the settings %s", settingNames(m))
		case i < 0:
			return nil, usagef("--set %s: the module has no such setting: give one of %s", name, settingNames(m))
		}
		value, err := absolute(value)
		switch {
		case err != nil:
			return nil, err
		case config.Reference(value):
		case m.Settings[i].Secret:
			return nil, usagef("--set %s is a secret, and other users can see it here: give it as ${VARIABLE} or file:PATH", name)
		default:
			value = config.Literal(value)
		}
		given[name] = value
	}
	return given, nil
}

// absolute makes the path of a reference one that does not depend on where the
// command was given.
func absolute(value string) (string, error) {
	path, ok := strings.CutPrefix(value, "file:")
	if !ok || strings.HasPrefix(path, "~/") {
		return value, nil
	}
	path, err := filepath.Abs(path)
	return "file:" + path, err
}

func settingNames(m *config.Module) string {
	names := make([]string, len(m.Settings))
	for i, s := range m.Settings {
		names[i] = s.Name
	}
	if len(names) == 0 {
		return "which there are none"
	}
	return strings.Join(names, ", ")
}

// try opens the module once.
func (f *connectFlags) try(c *cobra.Command, m *config.Module, settings map[string]config.Value) error {
	logger := slog.New(slog.DiscardHandler)
	if f.verbose {
		logger = slog.New(slog.NewTextHandler(c.ErrOrStderr(), nil))
	}
	l, err := modules.OpenWith(c.Context(), m, settings, logger)
	if err != nil {
		return err
	}
	return closeLimiter(l)
}

// ask asks a person at a terminal for the settings that were not given, and
// puts what they say into written.
func ask(ctx context.Context, m *config.Module, in *os.File, out io.Writer, given, written map[string]string) error {
	lines := bufio.NewReader(in)
	for _, s := range m.Settings {
		if _, ok := given[s.Name]; ok {
			continue
		}
		label := s.Label
		if label == "" {
			label = s.Name
		}
		now := written[s.Name]
		switch {
		case now == "":
			fmt.Fprintf(out, "%s: ", clean(label))
		case s.Secret:
			fmt.Fprintf(out, "%s (Enter keeps it): ", clean(label))
		default:
			fmt.Fprintf(out, "%s (Enter keeps %s): ", clean(label), clean(now))
		}
		answer, err := readAnswer(ctx, in, lines, s.Secret)
		if s.Secret {
			fmt.Fprintln(out) // the key that ended it was not shown, either
		}
		if err != nil {
			return err
		}
		switch {
		case answer == "-":
			delete(written, s.Name)
		case answer == "":
		case config.Reference(answer):
			if written[s.Name], err = absolute(answer); err != nil {
				return err
			}
		default:
			written[s.Name] = config.Literal(answer)
		}
	}
	return nil
}

// readAnswer reads a line. A signal ends the waiting for it, and leaves the
// terminal as it was.
func readAnswer(ctx context.Context, in *os.File, lines *bufio.Reader, secret bool) (string, error) {
	before, err := term.GetState(int(in.Fd()))
	if err != nil {
		return "", fmt.Errorf("the terminal: %w", err)
	}
	type read struct {
		line []byte
		err  error
	}
	done := make(chan read, 1)
	go func() {
		var r read
		if secret {
			r.line, r.err = term.ReadPassword(int(in.Fd()))
		} else {
			r.line, r.err = lines.ReadBytes('\n')
		}
		done <- r
	}()
	select {
	case <-ctx.Done():
		_ = term.Restore(int(in.Fd()), before) // it is as good as it gets
		return "", ctx.Err()
	case r := <-done:
		if errors.Is(r.err, io.EOF) {
			return "", errors.New("nothing was answered; nothing is kept")
		}
		if r.err != nil {
			return "", fmt.Errorf("the terminal: %w", r.err)
		}
		return string(bytes.TrimSpace(r.line)), nil
	}
}
