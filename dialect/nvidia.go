package dialect

// Nvidia reports nothing; its requests come back about a minute after they were
// sent.
var Nvidia = &Dialect{
	Name:        "nvidia",
	Names:       []string{"nvidia-nim", "nim"},
	BaseURL:     "https://integrate.api.nvidia.com/v1",
	Hosts:       []string{"integrate.api.nvidia.com", "ai.api.nvidia.com"},
	Read:        reader{}.read,
	Tells:       "nothing",
	KeyPrefixes: []string{"nvapi-"},
}
