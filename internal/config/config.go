// Package config reads the configuration of the proxy: YAML in, every fault at
// once, each with its place in the file and what to write instead.
package config

import (
	"os"
	"path/filepath"
	"time"

	"github.com/paceline-proxy/paceline"
)

// Config is a whole configuration. What a file leaves out has its default.
type Config struct {
	// File is where it was read from. Empty: there was none.
	File string
	// Warnings are what is odd and yet works.
	Warnings Faults

	// Listen are the addresses to serve at: HOST:PORT or unix:PATH. Listens is
	// whether the file says so: a taken port that somebody asked for is an
	// error, a taken default port is replaced.
	Listen  []string
	Listens bool
	// AllowHosts are values of Host that are let in beside the loopback ones.
	AllowHosts      []string
	Mode            Mode
	Limiter         Limiter
	DefaultProvider DefaultProvider
	Tokens          []Token
	Clients         map[string]Client
	// ClientTimeout is how long clients are known to wait.
	ClientTimeout time.Duration
	// MaxReplayBytes is the longest body that is kept to be sent again.
	MaxReplayBytes int64
	Queue          Queue
	// DrainMax is how long a server that was told to stop copies what it still
	// streams.
	DrainMax time.Duration
	// IdleExit is after how long without a request a server that was started
	// for a command leaves.
	IdleExit time.Duration
	Upstream Upstream
	// BackgroundShare is the part of each rate that background work may use
	// while there is other work.
	BackgroundShare float64
	Budget          Budget
	Wait            Wait
	Log             Log
	// Providers are in the order of the file.
	Providers []Provider
	// Tiers are names for chains of PROVIDER/MODEL.
	Tiers    map[string][]string
	Fallback Fallback
}

// Mode is what is done about limits.
type Mode = paceline.Mode

// The modes.
const (
	Enforce = paceline.Enforce
	Observe = paceline.Observe
	Off     = paceline.Off
)

// Limiter says where grants are counted, and what happens while that cannot
// be reached.
type Limiter struct {
	URL       string
	Secret    string  // of a server or the wire, where the URL has none
	OnFailure string  // local, open or closed
	Share     float64 // of the limits under OnFailure local; 0: worked out
	Timeout   time.Duration
}

// DefaultProvider names the providers of requests whose path names none.
type DefaultProvider struct{ OpenAI, Anthropic string }

// A Token lets a caller in, and says who it is.
type Token struct {
	Name     string
	Value    string
	Priority string
	// Providers are those that it may use. Empty: all.
	Providers []string
}

// A Client is what holds for the requests of one name. Every zero means that
// the request itself, or the default, decides.
type Client struct {
	Priority      string
	MaxWait       time.Duration
	MaxConcurrent int
	Quota         paceline.Quota
}

// Queue bounds what waits.
type Queue struct {
	// Keep is how long a place outlives its connection.
	Keep         time.Duration
	MaxWaiting   int
	MaxHeldBytes int64
}

// Upstream is how providers are reached.
type Upstream struct {
	// Proxy is "env", "none" or a URL.
	Proxy string
	// CAFile is a file of certificates to trust beside the system's.
	CAFile string
}

// Budget is about what providers report of their limits.
type Budget struct {
	Enable bool
	// LogOnly takes readings and never waits for them.
	LogOnly bool
}

// Wait is what a person at a terminal sees of a wait.
type Wait struct {
	Show     bool
	Delay    time.Duration
	Interval time.Duration
	Timeout  time.Duration
}

// Log bounds the log of requests.
type Log struct{ KeepDays, MaxMB int }

// A Provider is one entry of providers. A Mode that it leaves out is that of
// the configuration.
type Provider struct {
	paceline.Provider
	// Upstream is how it is reached. What is empty is that of the configuration.
	Upstream Upstream
	// StreamHeartbeat is how often a waiting stream gets a comment. 0: never.
	StreamHeartbeat time.Duration

	apiKey string // becomes the only one of Credentials
}

// Fallback sends what one provider refuses to another.
type Fallback struct {
	From, To string
	// Models renames models on the way.
	Models map[string]string
}

// Default is the configuration of those who have none.
func Default() *Config {
	return &Config{
		Listen:          []string{"localhost:8790"},
		Mode:            Enforce,
		Limiter:         Limiter{URL: "memory", OnFailure: "local", Timeout: 250 * time.Millisecond},
		DefaultProvider: DefaultProvider{OpenAI: "openai", Anthropic: "anthropic"},
		ClientTimeout:   5 * time.Minute,
		MaxReplayBytes:  32 << 20,
		Queue:           Queue{Keep: 2 * time.Minute, MaxWaiting: 20000, MaxHeldBytes: 512 << 20},
		DrainMax:        10 * time.Minute,
		IdleExit:        15 * time.Minute,
		Upstream:        Upstream{Proxy: "env"},
		BackgroundShare: 0.7,
		Budget:          Budget{Enable: true},
		Wait:            Wait{Show: true, Delay: time.Second, Interval: 100 * time.Millisecond, Timeout: 10 * time.Second},
		Log:             Log{KeepDays: 31, MaxMB: 1024},
	}
}

// Find says which file holds the configuration: the one that a flag names,
// else $PACELINE_CONFIG, else paceline.yaml in the home, where there is one.
func Find(flag, home string) (path string, ok bool) {
	if flag != "" {
		return flag, true
	}
	if env := os.Getenv("PACELINE_CONFIG"); env != "" {
		return env, true
	}
	path = filepath.Join(home, "paceline.yaml")
	if _, err := os.Stat(path); os.IsNotExist(err) {
		return "", false
	}
	return path, true
}
