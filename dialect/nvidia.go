package dialect

// Nvidia reports nothing; its requests come back about a minute after they were
// sent.
var Nvidia = &Dialect{
	Name:   "nvidia",
	Names:  []string{"nvidia-nim", "nim"},
	Hosts:  []string{"integrate.api.nvidia.com", "ai.api.nvidia.com"},
	Read:   reader{}.read,
	Demand: estimate,
}
