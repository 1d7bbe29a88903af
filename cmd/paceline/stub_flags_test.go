package main

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/paceline-proxy/paceline/stub"
)

// provide makes the stub of a command line.
func provide(args ...string) (*stub.Stub, error) {
	var f stubFlags
	fs := pflag.NewFlagSet("stub", pflag.ContinueOnError)
	fs.SetOutput(io.Discard)
	f.define(fs)
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	return f.provider(fs.Changed)
}

// What the help says a zero means can be said.
func TestZeroIsTakenWhereTheHelpSaysSo(t *testing.T) {
	var f stubFlags
	fs := pflag.NewFlagSet("stub", pflag.ContinueOnError)
	f.define(fs)
	said := 0
	fs.VisitAll(func(flag *pflag.Flag) {
		if !strings.Contains(flag.Usage, "; 0 is ") {
			return
		}
		said++
		for _, with := range []string{"", "--limit=2", "--meter=bucket --limit=2", "--meter=concurrent --limit=2"} {
			if _, err := provide(append(strings.Fields(with), "--"+flag.Name+"=0")...); err != nil {
				t.Errorf("%s --%s=0: %v; the help says %q", with, flag.Name, err, flag.Usage)
			}
		}
	})
	if said == 0 {
		t.Error("the help names no zero")
	}
}

// A default is nothing special when it is given.
func TestDefaultsCanBeGiven(t *testing.T) {
	var f stubFlags
	fs := pflag.NewFlagSet("stub", pflag.ContinueOnError)
	f.define(fs)
	fs.VisitAll(func(flag *pflag.Flag) {
		// The limit is none until a number is given, and the meter and the
		// faults are none without a word; the span is one of a limit.
		if flag.DefValue == "" || flag.Name == "limit" {
			return
		}
		args := []string{"--" + flag.Name + "=" + flag.DefValue}
		if flag.Name == "per" {
			args = append(args, "--limit=1")
		}
		if _, err := provide(args...); err != nil {
			t.Errorf("%v: %v", args, err)
		}
	})
	if _, err := provide("--jitter=0", "--service=0", "--seed=0", "--concurrent=0", "--burst=0", "--limit=1", "--per=1s"); err != nil {
		t.Error(err)
	}
}

// Every error names the flags to change, each once, and says what to give.
func TestErrorsNameFlags(t *testing.T) {
	named := regexp.MustCompile(`^--[a-z-]+`)
	args := [][]string{nil}
	for flag, values := range map[string][]string{
		"meter":      {"rolling", "bucket", "concurrent"},
		"limit":      {"-1", "0", "5", "9223372036854775807"},
		"per":        {"-1s", "0s", "1m", "1h0m0.000000001s"},
		"burst":      {"-1", "0", "3", "9223372036854775807"},
		"concurrent": {"-1", "0", "3"},
		"service":    {"-1s", "0s"},
		"jitter":     {"-1s", "0s"},
		"tokens":     {"-1", "5"},
		"other":      {"40%/20s"},
	} {
		for _, before := range args {
			for _, v := range values {
				args = append(args, append(before[:len(before):len(before)], fmt.Sprintf("--%s=%s", flag, v)))
			}
		}
	}
	for _, a := range args {
		_, err := provide(a...)
		if err == nil {
			continue
		}
		if _, ok := err.(usageError); !ok {
			t.Fatalf("%v: not an error of usage: %v", a, err)
		}
		about := map[string]bool{}
		for fault := range strings.SplitSeq(err.Error(), "; ") {
			flag := named.FindString(fault)
			if flag == "" || about[flag] || !strings.Contains(fault, "give ") && !strings.Contains(fault, "leave it out") {
				t.Fatalf("%v: %q in %v", a, fault, err)
			}
			about[flag] = true
			// One fault is one message: what is fit is not complained of.
			if (flag == "--service" || flag == "--jitter") && !strings.Contains(strings.Join(a, " "), flag+"=-1s") {
				t.Fatalf("%v: %v", a, err)
			}
		}
		if strings.Contains(err.Error(), "meter 1") || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "too long") {
			t.Fatalf("%v: %v", a, err)
		}
	}
}

func TestErrorsSayWhatToGive(t *testing.T) {
	for args, want := range map[string]string{
		"--charge=kept":                 "--charge is for meters of tokens: give --tokens N, --input-tokens N or --output-tokens N too",
		"--other=40%/20s":               "--other spends from meters that count over time: give --limit N or --tokens N too",
		"--tokens=-1":                   "--tokens is -1: give a number from 1 on, or 0 for any number",
		"--ping=-1s":                    "--ping is -1s: give 0s or a longer time, such as 300ms",
		"--service=-1s":                 "--service is -1s: give 0s or a longer time, such as 300ms",
		"--jitter=-1ms":                 "--jitter is -1ms: give 0s or a longer time, such as 300ms",
		"--meter=bucket":                "--meter bucket needs a limit: give --limit N, the requests admitted in the span of --per",
		"--meter=concurrent":            "--meter concurrent needs a limit: give --limit N, the requests in service at once",
		"--limit=0":                     "--limit is 0: give a number from 1 on, or leave it out",
		"--limit=5 --burst=3":           "--burst is what a bucket holds: give --meter bucket, or leave it out",
		"--burst=3":                     "--burst is what a bucket holds: give --meter bucket and --limit N too",
		"--per=1h":                      "--per is the span of a limit: give --limit N too",
		"--concurrent=-1 --service=-1s": "--concurrent is -1: give a number from 1 on, or 0 for any number; --service is -1s: give 0s or a longer time, such as 300ms",
	} {
		if _, err := provide(strings.Fields(args)...); err == nil || err.Error() != want {
			t.Errorf("%s\n got %v\nwant %s", args, err, want)
		}
	}
}

// Tokens are counted in thousands and millions as in the configuration.
func TestStubTokens(t *testing.T) {
	for text, want := range map[string]int{"0": 0, "5": 5, "40k": 40_000, "1.5M": 1_500_000, "2.5k": 2500} {
		var n tokens
		if err := n.Set(text); err != nil || int(n) != want {
			t.Errorf("%s is %d, %v", text, n, err)
		}
	}
	for _, text := range []string{"", "k", "1.5", "1.0001k", "1e3", "NaN", "40K", "9999999999M", "1_000"} {
		var n tokens
		if err := n.Set(text); err == nil {
			t.Errorf("%q is %d", text, n)
		}
	}
}
