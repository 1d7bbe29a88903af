package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/paceline-proxy/paceline/internal/spelling"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A usageError is a command line that says something impossible. Its text is
// one line that says what is allowed.
type usageError struct{ text string }

func (e usageError) Error() string { return e.text }

func usagef(format string, args ...any) error { return usageError{fmt.Sprintf(format, args...)} }

// asUsage turns what cobra and its flags say about a command line into a
// usageError, and leaves every other error as it is.
func asUsage(c *cobra.Command, err error) error {
	if _, ok := errors.AsType[usageError](err); ok {
		return err
	}
	if e, ok := errors.AsType[*pflag.NotExistError](err); ok {
		return unknownFlag(c, e)
	}
	if e, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return badValue(e)
	}
	if e, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		_, what := pflag.UnquoteUsage(e.GetFlag())
		return usagef("--%s needs a value: %s", e.GetFlag().Name, what)
	}
	if e, ok := errors.AsType[*pflag.InvalidSyntaxError](err); ok {
		return usagef("%q is not a flag: flags are --NAME or --NAME=VALUE", e.GetSpecifiedFlag())
	}
	// An unknown command has no type of its own.
	var name, parent string
	if n, _ := fmt.Sscanf(err.Error(), "unknown command %q for %q", &name, &parent); n == 2 {
		return unknownCommand(c, name)
	}
	return err
}

// noArgs is for commands that take flags only.
func noArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s takes no arguments, only flags: %q is too much; see %s --help", c.Name(), args[0], c.CommandPath())
	}
	return nil
}

func unknownCommand(c *cobra.Command, name string) error {
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() || sub.Name() == "help" {
			names = append(names, sub.Name())
		}
	}
	if len(names) == 0 {
		return noArgs(c, []string{name})
	}
	return usagef("unknown command %q%s: the commands are %s", name, didYouMean(spelling.Nearest(name, names), ""), strings.Join(names, ", "))
}

func unknownFlag(c *cobra.Command, e *pflag.NotExistError) error {
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	allowed := "it has no flags"
	if len(names) > 0 {
		allowed = "the flags are --" + strings.Join(names, ", --")
	}
	if e.GetSpecifiedShortnames() != "" {
		return usagef("unknown flag -%s of %s: %s", e.GetSpecifiedName(), c.CommandPath(), allowed)
	}
	return usagef("unknown flag --%s of %s%s: %s", e.GetSpecifiedName(), c.CommandPath(),
		didYouMean(spelling.Nearest(e.GetSpecifiedName(), names), "--"), allowed)
}

// badValue says what is wrong with a flag's value. Where its type lists the
// words it takes, the nearest is suggested.
func badValue(e *pflag.InvalidValueError) error {
	f := e.GetFlag()
	switch kind := f.Value.Type(); {
	case errors.Is(e, strconv.ErrRange):
		return usagef("--%s is %q: that is out of range", f.Name, e.GetValue())
	case kind == "duration":
		return usagef("--%s is %q: give a duration such as 300ms, 45s or 1m", f.Name, e.GetValue())
	case kind == "int" || kind == "uint64":
		return usagef("--%s is %q: give a whole number", f.Name, e.GetValue())
	case kind == "bool":
		return usagef("--%s is %q: it is true or false", f.Name, e.GetValue())
	default:
		suggestion := didYouMean(spelling.Nearest(e.GetValue(), words(f)), "")
		why := e.Unwrap().Error()
		// What values say of themselves names them again.
		if _, after, ok := strings.Cut(why, fmt.Sprintf("%q: ", e.GetValue())); ok {
			why = after
		}
		return usagef("--%s is %q%s: %s", f.Name, e.GetValue(), suggestion, why)
	}
}

// words are what a flag takes, where its type lists them.
func words(f *pflag.Flag) []string {
	if kind := f.Value.Type(); strings.Contains(kind, "|") && !strings.ContainsAny(kind, "[=") {
		return strings.Split(kind, "|")
	}
	return nil
}

// completeWords lets shells complete the words of a command's flags.
func completeWords(c *cobra.Command) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if w := words(f); w != nil {
			// It fails only for flags that there are not, or that have it already.
			_ = c.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(w, cobra.ShellCompDirectiveNoFileComp))
		}
	})
}

func didYouMean(word, dashes string) string {
	if word == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s%s?)", dashes, word)
}
